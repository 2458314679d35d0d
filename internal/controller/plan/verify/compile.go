package verify

import (
	"fmt"
	"math"
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

// compiled is what became of an expression: its meaning, and what it costs at least, or a problem. It is never changed.
type compiled struct {
	ast     *cel.Ast
	least   uint64
	problem string
}

var known = lru.New(cached)

// Compile reports the first expression that can never be evaluated, by its field, in the compiler's words; nil: there is none. The
// largest cost is anybody's guess, as result has no schema; the limit at run time bounds it.
func Compile(checks []v1alpha1.ResultCheck) error {
	least := uint64(0)
	for i := range checks {
		c := compile(checks[i].Expression)
		if c.problem != "" {
			return fmt.Errorf("spec.verify[%d].expression: %s", i, c.problem)
		}
		if least += min(c.least, math.MaxInt64); least > CostLimit {
			return fmt.Errorf("spec.verify[%d].expression: all up to this one cost at least %d, whatever the result, and %d are allowed", i, least, CostLimit)
		}
	}
	return nil
}

func compile(expression string) *compiled {
	if c, ok := known.Get(expression); ok {
		return c.(*compiled)
	}
	c, err := build(expression)
	if err != nil {
		c = &compiled{problem: fencing.Truncate(printable(err.Error()), maxComplaint)}
	}
	known.Add(expression, c)
	return c
}

func build(expression string) (*compiled, error) {
	ast, issues := env().Parse(expression)
	if issues.Err() != nil {
		return nil, complaint(issues)
	}
	if n := structure(ast.NativeRep()); n > maxStructure {
		return nil, fmt.Errorf("has %d lists, maps, optionals and types, %d are allowed", n, maxStructure)
	}
	ast, issues = env().Check(ast)
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
	if _, err := env().Program(ast); err != nil {
		return nil, err
	}
	return &compiled{ast: ast, least: estimate.Min}, nil
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
