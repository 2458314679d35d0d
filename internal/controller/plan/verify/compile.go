package verify

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/utils/lru"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	// cached is how many expressions are kept compiled, or known not to compile. One takes some 50 KiB.
	cached = 256
	// maxComplaint bounds what is quoted of the compiler.
	maxComplaint = 384
)

// compiled is what became of an expression: a program, or a problem. It is never changed.
type compiled struct {
	program cel.Program
	problem string
}

var programs = lru.New(cached)

// Compile reports the first expression that can never be evaluated, by its field, in the compiler's words; nil: there is none.
func Compile(checks []v1alpha1.ResultCheck) error {
	for i := range checks {
		if c := compile(checks[i].Expression); c.problem != "" {
			return fmt.Errorf("spec.verify[%d].expression: %s", i, c.problem)
		}
	}
	return nil
}

func compile(expression string) *compiled {
	if known, ok := programs.Get(expression); ok {
		return known.(*compiled)
	}
	c := &compiled{}
	if program, err := build(expression); err != nil {
		c.problem = fencing.Truncate(printable(err.Error()), maxComplaint)
	} else {
		c.program = program
	}
	programs.Add(expression, c)
	return c
}

func build(expression string) (cel.Program, error) {
	ast, issues := env().Compile(expression)
	if issues.Err() != nil {
		return nil, complaint(issues)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("is of type %s, and must be bool: compare, as in result.ok == true", ast.OutputType())
	}
	estimate, err := env().EstimateCost(ast, &costs{library.CostEstimator{SizeEstimator: sizes{}}})
	if err != nil {
		return nil, err
	}
	if estimate.Min > CostLimit { // the largest cost is anybody's guess, as result has no schema; the limit at run time bounds it
		return nil, fmt.Errorf("costs at least %d, whatever the result, and %d are allowed", estimate.Min, CostLimit)
	}
	return env().Program(ast)
}

// complaint is the first of the compiler's errors, in one line.
func complaint(issues *cel.Issues) error {
	all := issues.Errors()
	if len(all) == 0 {
		return issues.Err()
	}
	first := all[0]
	// Columns count from 0 in there, and from 1 in editors.
	return fmt.Errorf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
}

// printable is a text in one line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// sizes tells the estimate how large the variables get. Of what is inside of a result nothing is known.
type sizes struct{}

func (sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if path := node.Path(); len(path) == 1 && (path[0] == varResult || path[0] == varRaw) {
		return &checker.SizeEstimate{Min: 0, Max: fencing.MaxResultBytes}
	}
	return nil
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
