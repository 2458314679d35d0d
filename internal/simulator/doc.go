// Package simulator lets a task live through whatever may happen to it, tens of thousands of times, and checks the promises of
// the term protocol at every write. It has tests only:
//
//	go test ./internal/simulator -run TestSimulation -schedules=20000 -seed=1
//
// Whatever fails names the seed of its schedule; with -schedules=1 and that seed it fails again.
//
// The decisions are the product's: plan.Decide for the controllers, package holder for the workers, and the bytes of fencing's
// patches for whatever is written to the Lease. What stands here is the world around them, in simulated time: an API server
// that does one write after the other, and knows no policy but what the protocol cannot do without (claim and submission are
// written once, a term that is over is not renewed); two controllers, each with a cache of its own for tasks, Leases and Pods
// that lags by itself, with the memory of its observer and its sight; nodes with kubelets, agents and their children, each on
// its own clock. The loops around the decisions mirror controller.Reconcile, controller.execute, agent.claim, agent.supervise and
// agent.submit request by request: where those change, these must.
//
// # A schedule
//
// A schedule is up to a hundred events with time between them, drawn by rapid, which also shrinks one that fails to its gist. Each
// draws a few kinds of faults first, so that those meet often. What happens:
//
//	people       suspend and resume the task, cancel it, spoil and repair its spec
//	controllers  crash, freeze and go on later between any two requests, even as another leads; two leaders; cut off; slow;
//	             each watch late, standing still, then catching up version by version or by a list that skips some
//	messages     late, lost, doubled, overtaken by others; an answer lost; a write that stands although its answer says no
//	API server   an outage; no worker role; no epoch, or a raised one; Pods refused in every way, dead letters too; the Lease
//	             deleted
//	workers      success, failure, hang, death; an agent that forgets how long its attempt may take; a tree that ignores SIGTERM,
//	             or outlives its first process; a node frozen, with a clock that goes on or stands still; cut off both ways or one;
//	             a Pod restarted in place, evicted, deleted, gone, collected as garbage while it runs, made anew under its name
//	clocks       rates that differ by up to 10 %, the bound that the protocol allows; wall clocks set by hours, or standing still
//	etcd         restored from a backup, with the epoch raised or the revisions bumped, while the nodes go on
//
// Then the faults stop, and the task must finish, driven by events and by the times that plans ask for.
//
// # What is checked
//
//   - A term has one submission, taken from its holder while it is open, and a task is completed once, by one that was taken.
//   - Tokens only rise, over all that were ever on record, restores included.
//   - A child starts, an attempt is recorded as over for good, and the next is recorded as begun only while no process of an
//     earlier attempt lives.
//   - One process a term starts its child.
//   - A term is revoked only if its holder is dead, or was not heard for D in which it could be heard, or took longer than it
//     may.
//   - A grant goes over no open term, and erases no submission that is not on record.
//   - An agent whose tree is dead submits until it is accepted, refused or killed; a success that was taken completes the task.
//   - No attempt is given up for want of a claim before its time.
//   - Outside, where tokens are compared and nothing else, the effect of a task with onLostAttempt Reconcile or DeadLetter happens once
//     at most; no attempt of it starts while it is not known of an earlier one that it had no effect: by the word of its worker, or, with
//     Reconcile, of a probe that came after it. What is Completed had its effect.
//   - A task is cancelled only if that was asked for.
//   - A task is dead-lettered after its dead letter is made, of which there is one, and one that has a dead letter does not go on.
//   - Every task finishes, and everything that was started for it ends.
//
// # What is not promised, and so not checked
//
// Processes may overlap where the protocol says so: on a node that was frozen, from then until a renewal that was begun
// afterwards is accepted; under onRenewalFailure: Continue; and where a kubelet has lost its records and reports the end of another
// process, killed without a word, in place of the first.
//
// A restore forgets: it may bring a task back to before an attempt that had its effect, and then no policy keeps it from another.
// Processes whose claim is not in the backup may overlap with the attempts that follow, and their submissions are
// refused: what they did is what the token is for, which is why it must rise. What was submitted after the backup is lost, and a
// task that was completed after it is run again. A term whose claim is in the backup is kept as after any other start of the
// operator: it gets one full D. A term that the backup has and its status does not know may be claimed by a Pod that the backup has
// not; what that submits is recorded under the token that it had. Without a raised epoch and without bumped revisions nothing is promised of tokens, and no schedule
// does that; the operator then refuses grants below the token on record, no more.
package simulator
