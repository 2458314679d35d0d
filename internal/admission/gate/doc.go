// Package gate decides which new tasks a queue takes. It is pure: what it knows is what it is told, with the time.
//
// A [Queue] is one queue as one replica of the operator sees it. It is asked about every new task ([Queue.Ask]), and is told what the
// watch shows ([Queue.Created], [Queue.Arrive], [Queue.Leave]). It keeps three things:
//
//	bucket.go    how many tasks may still be accepted: a token bucket for the queue, and one for each tenant
//	accepted.go  what was accepted and is not seen yet, so that it counts as pending at once
//	flow.go      how fast tasks leave the queue, for Little's law: who joins waits for (tasks ahead) / (tasks that leave in a second)
//
// Replicas do not talk to each other. Each charges its buckets for what it has accepted, and for every task that it sees created
// and has not accepted itself. So together they accept no more than the rate, plus one burst for each replica, plus what is
// offered in the time that a watch event takes; that excess is paid back before anything else is accepted.
//
// Nothing is remembered of what was refused but one time for each bucket: the place in time of whoever is refused next.
package gate
