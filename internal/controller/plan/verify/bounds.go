package verify

import (
	"fmt"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// bounds refuses what the cost limit cannot bound. A cost is counted after each call, so that no single call may do more than a
// fixed multiple of what its arguments have cost. Kubernetes, whose expressions administrators write, leaves that to the estimate,
// which needs a schema.
type bounds struct{}

// refused are functions that Kubernetes has and we have not.
var refused = map[string]string{
	"replace":         makesMuch,
	"join":            makesMuch,
	"format":          makesMuch,
	"strings.quote":   makesMuch,
	"indexOf":         looksAtMuch,
	"lastIndexOf":     looksAtMuch,
	"sets.contains":   looksAtMuch,
	"sets.intersects": looksAtMuch,
	"sets.equivalent": looksAtMuch,
}

const (
	makesMuch   = "what it makes may be a thousand times what it is given"
	looksAtMuch = "it takes the product of the sizes of what it is given"
)

// matchers are the functions that take a pattern.
var matchers = map[string]bool{"matches": true, "find": true, "findAll": true}

// aggregates are the functions that look through all of a list; so does the count of their cost, down to the last leaf.
var aggregates = map[string]bool{"sum": true, "min": true, "max": true, "isSorted": true}

// Name is the validator's.
func (bounds) Name() string { return "leasehold.bounds" }

// Validate looks at every call, those in macros included.
func (bounds) Validate(_ *cel.Env, _ cel.ValidatorConfig, ast *celast.AST, issues *cel.Issues) {
	for _, expr := range celast.MatchDescendants(celast.NavigateAST(ast), celast.KindMatcher(celast.CallKind)) {
		call := expr.AsCall()
		name := call.FunctionName()
		switch {
		case refused[name] != "":
			issues.ReportErrorAtID(expr.ID(), "%s is not available here: %s", name, refused[name])
		case matchers[name]:
			if problem := badPattern(pattern(call)); problem != "" {
				issues.ReportErrorAtID(expr.ID(), "%s: %s", name, problem)
			}
		case aggregates[name]:
			if of := ast.GetType(call.Target().ID()); of.Kind() != types.ListKind || !isSimple(of.Parameters()[0]) {
				issues.ReportErrorAtID(expr.ID(), "%s: the list must hold values of a known simple type, as in result.a.map(x, int(x)).%s()", name, name)
			}
		case name == operators.Equals || name == operators.NotEquals:
			if args := call.Args(); !isShallow(ast, args[0]) && !isShallow(ast, args[1]) {
				issues.ReportErrorAtID(expr.ID(), "one side must be a literal or of a known simple type, as in int(result.a) == result.b")
			}
		case name == operators.In:
			if args := call.Args(); !isShallow(ast, args[0]) && !isShallow(ast, args[1]) {
				issues.ReportErrorAtID(expr.ID(), "what is looked for must be a literal or of a known simple type, as in string(result.a) in result.b")
			}
		}
	}
}

// structure counts what makes a type of another, in what was parsed and not checked yet, what macros make included.
func structure(ast *celast.AST) (n int) {
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(expr celast.Expr) {
		switch expr.Kind() {
		case celast.ListKind, celast.MapKind:
			n++
		case celast.CallKind:
			switch expr.AsCall().FunctionName() {
			case "type", "of", "ofNonZeroValue":
				n++
			}
		default: // has a type that was there before
		}
	}))
	return n
}

// isShallow reports whether a comparison with the expression's value ends soon, whatever it is compared with: a list of lists of
// lists that are all the same one is cheap to make, and takes for ever to compare.
func isShallow(ast *celast.AST, expr celast.Expr) bool {
	switch expr.Kind() {
	case celast.LiteralKind:
		return true
	case celast.ListKind:
		for _, element := range expr.AsList().Elements() {
			if !isShallow(ast, element) {
				return false
			}
		}
		return true
	case celast.MapKind:
		for _, entry := range expr.AsMap().Entries() {
			if !isShallow(ast, entry.AsMapEntry().Key()) || !isShallow(ast, entry.AsMapEntry().Value()) {
				return false
			}
		}
		return true
	default:
		return isSimple(ast.GetType(expr.ID()))
	}
}

func isSimple(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.BytesKind, types.DurationKind,
		types.TimestampKind, types.NullTypeKind, types.TypeKind:
		return true
	default:
		return false
	}
}

// pattern is the argument of a matcher that holds the pattern: the one after the text.
func pattern(call celast.CallExpr) celast.Expr {
	if call.IsMemberFunction() {
		return call.Args()[0]
	}
	return call.Args()[1]
}

func badPattern(of celast.Expr) string {
	text, isText := "", false
	if of.Kind() == celast.LiteralKind {
		text, isText = of.AsLiteral().Value().(string)
	}
	if !isText {
		return "the pattern must be a literal"
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return err.Error()
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return err.Error()
	}
	if n := len(program.Inst); n > maxInstructions {
		return fmt.Sprintf("the pattern compiles to %d instructions, %d are allowed: a repetition is too long", n, maxInstructions)
	}
	return ""
}
