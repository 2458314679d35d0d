package conformance

import (
	"errors"
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// request is what a worker asked of one resource.
type request struct {
	write bool
	token guard.Token
	value string
}

// outcome is what a worker was told.
type outcome int

const (
	done outcome = iota
	stale
	uncertain
)

// answer is the outcome and what came with it.
type answer struct {
	outcome outcome
	state   State // of a read; of a refusal the mark alone
}

// answerOf translates a guard's answer. An error of another kind has no place in a history without faults.
func answerOf(err error) (answer, error) {
	if refusal, is := errors.AsType[*guard.StaleError](err); is {
		return answer{outcome: stale, state: State{Mark: refusal.Mark}}, nil
	}
	if guard.IsUncertain(err) {
		return answer{outcome: uncertain}, nil
	}
	return answer{}, err
}

// position is where a search for an order stands.
type position struct {
	State
	passed int // operations of the mark's epoch so far
	reads  int // of the value so far
}

// model is a register with a mark, for this history. As marks only rise, all that happened under one mark, its epoch, comes before
// all that happened under a higher one. The model knows the size of each epoch and does not leave one early. That excludes no
// order that is right, and spares the search the wrong ones, of which 32 workers make too many.
func model(history []porcupine.Operation, separateMark bool) porcupine.Model {
	tokenOf := map[string]guard.Token{"": 0}
	for _, o := range history {
		if asked := o.Input.(request); asked.write {
			tokenOf[asked.value] = asked.token
		}
	}
	size, reads := map[guard.Token]int{}, map[string]int{}
	for _, o := range history {
		if mark, certain := epoch(o.Input.(request), o.Output.(answer), tokenOf); certain {
			size[mark]++
		}
		if !o.Input.(request).write {
			reads[o.Output.(answer).state.Value]++
		}
	}
	return porcupine.Model{
		Init: func() any { return position{} },
		Step: func(state, input, output any) (bool, any) {
			at, asked, told := state.(position), input.(request), output.(answer)
			right, next := step(at.State, asked, told, separateMark)
			if next.Mark != at.Mark {
				right = right && at.passed == size[at.Mark] && !skips(size, at.Mark, next.Mark)
				at.passed = 0
			}
			if next.Value != at.Value {
				right = right && at.reads == reads[at.Value]
				at.reads = 0
			}
			if _, certain := epoch(asked, told, tokenOf); certain {
				at.passed++
			}
			if !asked.write {
				at.reads++
			}
			return right, position{next, at.passed, at.reads}
		},
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%+v -> %+v", input, output)
		},
	}
}

// skips says that there is an epoch between the two marks.
func skips(size map[guard.Token]int, from, to guard.Token) bool {
	for mark := range size {
		if from < mark && mark < to {
			return true
		}
	}
	return false
}

// epoch is the mark under which an operation took place, unless that is uncertain. A value tells the token under which it was written.
func epoch(asked request, told answer, tokenOf map[string]guard.Token) (mark guard.Token, certain bool) {
	switch {
	case !asked.write:
		return tokenOf[told.state.Value], true
	case told.outcome == stale:
		return told.state.Mark, true
	default:
		return asked.token, told.outcome == done
	}
}

// step says whether the answer is right in this state, and what the next state is.
func step(now State, asked request, told answer, separateMark bool) (bool, State) {
	written := State{asked.value, asked.token}
	switch {
	case !asked.write:
		return told.state.Value == now.Value && (separateMark || told.state.Mark == now.Mark), now
	case told.outcome == stale:
		return asked.token < now.Mark && told.state.Mark == now.Mark, now
	case told.outcome == done:
		return asked.token >= now.Mark, written
	case asked.token >= now.Mark: // uncertain: it happens here, or after everything else
		return true, written
	default:
		return true, now
	}
}
