// Package holder is the worker's side of the term protocol: the decisions of an agent, as values that take time as an
// argument. Package fencing has the rest: the messages, the controller's judgement, the intervals.
//
//	Claimant  who holds the term: which form of the claim to send next, and when an answer is final
//	Trust     until when to believe that the term stands, and when to renew
//	Attempt   whether the command may run, when it is told to stop and what for, when its process tree must be dead, when to
//	          look again; whether it has to say that it works, and has
//
// It knows no processes, no client and no clock. Package agent connects it to the world, the simulator to a model of it.
//
// # Time
//
// Trust is counted on CLOCK_BOOTTIME ([Boot]), which a suspended machine cannot stretch, and from the *start* of the last
// successful request: the controller counts from when it observed the effect, which is later.
package holder
