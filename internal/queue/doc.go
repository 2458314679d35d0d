// Package queue decides whose turn it is: which of the tasks that wait for one TaskQueue may start now, and what the others wait
// for. It is pure: it knows no cluster, no clock and no randomness; the same calls give the same answers.
//
// One [Queue] is the state of one TaskQueue. Its owner feeds it from what it sees, calls Dispatch whenever something has changed or
// the time that Dispatch named has passed, and locks: a Queue is not safe for concurrent use.
package queue
