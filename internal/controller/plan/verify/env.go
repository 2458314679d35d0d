package verify

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

const (
	// CostLimit bounds the evaluation of all of a task's expressions together, in the units of CEL's cost model: enough to look at every
	// element of the largest result. At worst that takes a second or two of one processor.
	CostLimit = 300_000
	// maxInstructions bounds a compiled pattern. The cost model knows its length, and a{1000} is short.
	maxInstructions = 500
	// maxStructure bounds what of an expression may make a type of another. Checking takes the fourth power of how deep they are: of 240
	// lists in each other several seconds, of 64 some ten milliseconds.
	maxStructure = 64
)

// dialect is the version of Kubernetes whose CEL this is: the oldest that Leasehold runs on, so that the documentation of any
// cluster holds for it.
var dialect = version.MajorMinor(1, 31)

// Names of the variables.
const (
	varResult    = "result"
	varRaw       = "raw"
	varResultRef = "resultRef"
)

// refType is the type of resultRef; its value is null where there is none.
var refType = apiservercel.NewObjectType("leasehold.ResultRef", map[string]*apiservercel.DeclField{
	"uri":       apiservercel.NewDeclField("uri", apiservercel.StringType, true, nil, nil),
	"digest":    apiservercel.NewDeclField("digest", apiservercel.StringType, true, nil, nil),
	"sizeBytes": apiservercel.NewDeclField("sizeBytes", apiservercel.IntType, true, nil, nil),
})

// env is the environment that expressions are compiled in.
var env = sync.OnceValue(func() *cel.Env {
	base := environment.MustBaseEnvSet(dialect)
	set, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: dialect,
		EnvOptions: []cel.EnvOption{
			cel.Variable(varResult, cel.DynType),
			cel.Variable(varRaw, cel.StringType),
			cel.Variable(varResultRef, refType.CelType()),
			cel.ASTValidators(bounds{}),
			// Without optMap and optFlatMap, which copy what they are called on: ten in a row make it a thousand times.
			cel.ClearMacros(), cel.Macros(cel.StandardMacros...),
		},
		ProgramOptions: []cel.ProgramOption{cel.CostTracking(&costs{})},
		DeclTypes:      []*apiservercel.DeclType{refType},
	})
	if err != nil {
		panic("the CEL environment: " + err.Error()) // programming error: all of it is constant
	}
	return set.NewExpressionsEnv()
})

// costs is the cost model of the API server, except that what is put together is charged for its size, lists too: what a value may
// cost later to look through is paid for before there is one. A list is not copied, so of it only what is added is charged.
type costs struct{ library.CostEstimator }

// CallCost is asked after each call.
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if function != operators.Add {
		return c.CostEstimator.CallCost(function, overload, args, result)
	}
	made := result
	if _, isList := result.(traits.Lister); isList {
		made = args[1]
	}
	if sized, ok := made.(traits.Sizer); ok {
		if n, ok := sized.Size().(types.Int); ok {
			return new(1 + uint64(n))
		}
	}
	return nil // a number
}
