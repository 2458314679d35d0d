// Package conformance is the test that every guard must pass. It wants two things of a guard: a write under a token, and a read.
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Store{
//			Address: "127.0.0.1:5432",
//			Open:    func(tb testing.TB, address string) conformance.Register { ... },
//		})
//	}
//
// The suite does not trust the guard to be interrupted at a convenient place. It puts a line of its own between each worker and the
// store, and there it pauses a worker between any two messages, or cuts it off after any byte. A guard that asks first and writes
// later cannot hide from that: it fails.
//
// What is checked:
//
//   - Marks: an equal or higher token writes, a lower one is refused and changes nothing, tokens are compared as 64-bit integers, what is
//     not a token does not reach the store, resources do not touch each other.
//   - Concurrent: 32 workers with different tokens on one resource. The highest token's value stays; what a reader sees never goes back.
//   - EqualTokens: 32 workers with the same token are all let through.
//   - Crash: a worker is cut off after each of many bytes of its write. The store holds the old value with the old mark or the new value
//     with the new mark, and an error that is not [guard.UncertainError] means that nothing happened. A guard that cannot make check and
//     write one step says so in [Store.Uncertain]: it may leave the old value under the new mark, and must then have said uncertain.
//   - Property: many random small programs of workers that pause, at the worker and on the line.
//   - Linearizable: 32 workers that write and read under rising tokens. There must be one order of all operations, in keeping with when they
//     began and ended, in which a register with a mark gives the same answers (github.com/anishathalye/porcupine).
package conformance
