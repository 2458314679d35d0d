// Package queue decides whose turn it is: which of the tasks that wait for one TaskQueue may start now, and what the others wait
// for. It is pure: it knows no cluster, no clock and no randomness; the same calls give the same answers.
//
// One [Queue] is the state of one TaskQueue. Its owner feeds it from what it sees, calls [Queue.Dispatch] whenever something has
// changed or the time that Dispatch named has passed, and locks: a Queue is not safe for concurrent use.
//
// # Who holds capacity
//
// A task waits (Join), or holds capacity (Hold), or neither (Leave). The last word counts, whatever came before, so that the owner may
// repeat itself, and begin in the middle. Nothing is ever released but by the owner's word, which comes from what the cluster shows:
// there is no count that could leak. A task that Dispatch has admitted holds capacity from then on, although the cluster does not
// show it yet.
//
// # Order
//
//   - Of those that may start, a task of a higher priority comes first. With ageing, each Ageing of waiting is worth one priority: a
//     priority counts as raised by how long the oldest of its tasks that may start has waited. So a low one waits no longer than the
//     difference times Ageing before it is served as the higher ones are.
//   - Of one priority, tenants get starts in proportion to their weights. This holds with ageing, too: a tenant's backlog, however
//     old, is no reason to let another tenant wait. See below.
//   - Of one tenant and priority, who has waited longest comes first; then the name, then the ID decides.
//
// A tenant at its limit, its bulkhead, stands in nobody's way: it is passed over. Nothing waits while all its limits have room.
//
// # Weights
//
// Start-time fair queueing: P. Goyal, H. M. Vin, H. Cheng, "Start-time Fair Queueing: A Scheduling Algorithm for Integrated Services
// Packet Switching Networks", SIGCOMM 1996; with packets of one size it is stride scheduling, C. A. Waldspurger, W. E. Weihl, "Stride
// Scheduling: Deterministic Proportional-Share Resource Management", MIT/LCS/TM-528, 1995. Each level has a virtual time, the tag of
// the last start; each tenant of it a tag, which a start raises by 1/weight; the lowest tag is next. A tenant that comes, comes back,
// or was passed over at its limit continues at the virtual time if its tag is lower: who was idle gains no credit. Nor does it lose a
// debt: its tag is kept until the virtual time has reached it, or the level is empty. Between tenants i and j that both wait, starts
// divided by weight never differ by more than 1/wi + 1/wj, whatever else happens; a turn that is given back, or taken back, counts as a start.
//
// # Rates
//
// A rate is about starts. What was started before this Queue is not known, therefore a new one begins with an empty bucket, or a full
// window: no two leaders together start more than one of them may. See [Rate].
//
// # The breaker
//
// A [Breaker] stops starts while most of them would fail. See [Queue.Guard].
package queue
