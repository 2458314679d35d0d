package conformance

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-io/leasehold/worker/guard"
)

func op(client int, from, to int64, asked request, told answer) porcupine.Operation {
	return porcupine.Operation{ClientId: client, Input: asked, Call: from, Output: told, Return: to}
}

func write(token guard.Token, value string) request {
	return request{write: true, token: token, value: value}
}

func saw(value string, mark guard.Token) answer { return answer{state: State{value, mark}} }

func TestModel(t *testing.T) {
	refused := func(mark guard.Token) answer { return answer{outcome: stale, state: State{Mark: mark}} }
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"in order":           {[]porcupine.Operation{op(0, 0, 1, write(1, "a"), answer{}), op(1, 2, 3, write(2, "b"), answer{}), op(0, 4, 5, write(1, "c"), refused(2))}, true},
		"equal token":        {[]porcupine.Operation{op(0, 0, 1, write(1, "a"), answer{}), op(1, 2, 3, write(1, "b"), answer{})}, true},
		"stale accepted":     {[]porcupine.Operation{op(0, 0, 1, write(2, "a"), answer{}), op(1, 2, 3, write(1, "b"), answer{})}, false},
		"overlap, lower ok":  {[]porcupine.Operation{op(0, 0, 3, write(2, "a"), answer{}), op(1, 1, 2, write(1, "b"), answer{})}, true},
		"overlap, overtaken": {[]porcupine.Operation{op(0, 0, 3, write(2, "a"), answer{}), op(1, 1, 2, write(1, "b"), answer{}), op(0, 4, 5, request{}, saw("b", 1))}, false},
		"refused for naught": {[]porcupine.Operation{op(0, 0, 1, write(1, "a"), answer{}), op(1, 2, 3, write(2, "b"), refused(3))}, false},
		"mark without value": {[]porcupine.Operation{op(0, 0, 1, write(1, "a"), answer{}), op(1, 2, 9, write(2, "b"), answer{}), op(2, 3, 4, request{}, saw("a", 2))}, false},
		"uncertain, did":     {[]porcupine.Operation{op(0, 0, math.MaxInt64, write(1, "a"), answer{outcome: uncertain}), op(1, 2, 3, request{}, saw("a", 1))}, true},
		"uncertain, did not": {[]porcupine.Operation{op(0, 0, math.MaxInt64, write(1, "a"), answer{outcome: uncertain}), op(1, 2, 3, request{}, saw("", 0))}, true},
		"value appears":      {[]porcupine.Operation{op(1, 2, 3, request{}, saw("a", 1))}, false},
	} {
		if got := porcupine.CheckOperations(model(c.history, false), c.history); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
