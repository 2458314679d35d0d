// Package verify evaluates spec.verify: conditions on a worker's result, in CEL, as Kubernetes writes its own validation rules.
// It is pure, like package plan: the same expressions and the same result give the same answer. What it keeps are compiled
// expressions, a bounded number, and they are a function of their text.
//
//	env.go       the variables, the dialect, what things cost
//	bounds.go    what is left out of the dialect
//	compile.go   from text to a checked expression: errors, the estimate of the cost, the cache
//	check.go     the answer: each condition holds, or one does not, or cannot be evaluated, or costs too much
//
// Whoever may make a task may write an expression, and its worker chooses the result; neither may hold up the operator, which works
// for others too. So the cost of all expressions of a task together is limited, as in the API server, and what the cost does not see is
// refused: what a single call may do, and what takes long to compile.
package verify
