package verify

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// maxQuote bounds what a message quotes of an expression, and of an evaluation error, which may quote the result.
const maxQuote = 128

// Subject is what a worker submitted with its success.
type Subject struct {
	// Result is what it wrote to its result file; nil: nothing.
	Result *string
	// Ref points to a result that is kept elsewhere; nil: there is none.
	Ref *fencing.ResultRef
}

// Check reports the first condition that does not hold, or cannot be evaluated; nil: all of them hold. All of them together may cost
// CostLimit. The error says which it is, and the size of what was looked at; of the content it quotes at most 128 bytes.
func Check(checks []v1alpha1.ResultCheck, s Subject) error {
	if len(checks) == 0 {
		return nil
	}
	variables, isJSON := s.variables()
	left := uint64(CostLimit)
	for i := range checks {
		why, cost := one(&checks[i], variables, left)
		if why != "" {
			return fmt.Errorf("spec.verify[%d]: %s (%s)", i, why, s.describe(isJSON))
		}
		left -= min(cost, left)
	}
	return nil
}

// one says why a condition does not hold; empty: it does, and has cost so much of the limit.
func one(check *v1alpha1.ResultCheck, variables map[string]any, limit uint64) (why string, cost uint64) {
	c := compile(check.Expression)
	if c.problem != "" { // it compiled when the task was accepted, under an older version of this program
		return "cannot be compiled: " + fencing.Truncate(c.problem, maxQuote), 0
	}
	value, cost, err := c.evaluate(variables, limit)
	switch cancelled := (interpreter.EvalCancelledError{}); {
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return prefixed(check, fmt.Sprintf("stopped at the cost limit of %d for all conditions; it says neither yes nor no", CostLimit)), cost
	case err != nil:
		return prefixed(check, "cannot be evaluated: "+fencing.Truncate(printable(err.Error()), maxQuote)), cost
	case value.Value() == true:
		return "", cost
	case check.Message != "":
		return check.Message, cost
	}
	return "does not hold: " + fencing.Truncate(printable(check.Expression), maxQuote), cost
}

// evaluate stops at the limit. A program has its limit from when it is made, which takes a tenth of a millisecond.
func (c *compiled) evaluate(variables map[string]any, limit uint64) (value ref.Val, cost uint64, err error) {
	program, err := env().Program(c.ast, cel.CostLimit(limit))
	if err != nil {
		return nil, 0, err
	}
	value, details, err := program.Eval(variables)
	if actual := details.ActualCost(); actual != nil {
		return value, *actual, err
	}
	return value, limit, err
}

func prefixed(check *v1alpha1.ResultCheck, what string) string {
	if check.Message == "" {
		return what
	}
	return check.Message + ": " + what
}

// variables are what the expressions see. result is null unless there is a result and it is one JSON value; an integer in it that
// 64 bits hold is an int, every other number a double.
func (s Subject) variables() (all map[string]any, isJSON bool) {
	all = map[string]any{varResult: nil, varRaw: "", varResultRef: nil}
	if s.Ref != nil {
		all[varResultRef] = map[string]any{"uri": s.Ref.URI, "digest": s.Ref.Digest, "sizeBytes": s.Ref.SizeBytes}
	}
	if s.Result == nil {
		return all, false
	}
	all[varRaw] = *s.Result
	var value any
	if err := utiljson.Unmarshal([]byte(*s.Result), &value); err != nil {
		return all, false
	}
	all[varResult] = value
	return all, true
}

func (s Subject) describe(isJSON bool) string {
	switch {
	case s.Ref != nil:
		return fmt.Sprintf("the result is kept elsewhere and has %d bytes", s.Ref.SizeBytes)
	case s.Result == nil:
		return "there is no result"
	case !isJSON:
		return fmt.Sprintf("the result has %d bytes and is not JSON", len(*s.Result))
	}
	return fmt.Sprintf("the result has %d bytes", len(*s.Result))
}
