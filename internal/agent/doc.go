// Package agent is the worker's side of the term protocol (see package fencing): it claims the term of one attempt, runs
// the command while the term can be trusted, kills what is left of it, and submits how it ended.
//
// # One attempt, in order
//
//	claim      one patch, repeated until it is known who holds the term ([holder.Claimant])     nothing runs yet
//	listen     on the socket by which the command asks and tells (socket.go, routes.go), its checkpoint in place (notes.go)
//	start      only after the claim, and only while it is fresh
//	supervise  renew every p; forward signals; stop when the answer to a renewal says so, the Pod is told to, or the time is
//	           over; fence when trust ends or a renewal is refused ([holder.Attempt], [holder.Trust])
//	kill       everything the command has left, until nothing is left ([Tree])
//	submit     the outcome ([ending]), until it is accepted or refused
//	report     the termination message, before the submission (Unknown) and after it
//
// Trust bounds the child, not the submission: an agent whose trust has ended kills its tree and goes on submitting.
// The order kill, then submit is what makes a submission a ground for releasing the task to its next attempt.
//
// # Layout
//
// Decisions are pure and take time as an argument: package fencing/holder (until when to believe, who holds the term, when
// to kill) and ending.go (what to submit). Everything that touches the world stands behind [Mailbox] (the Lease), [Tree]
// (the processes), [Clock] and [Alarm]; the loops in claim.go, supervise.go and submit.go connect the two. run.go is the
// place to start reading.
//
// While anything of the tree may live, the loop waits for nobody but the kernel: for files see disk.go, for the log log.go.
//
// # Time
//
// Trust is counted on CLOCK_BOOTTIME ([holder.Boot]): a suspended machine must not stretch it, so timers come from a timerfd on
// that clock and not from the runtime, whose timers stand still during suspension. The wall clock is only written to
// renewTime, for people.
package agent
