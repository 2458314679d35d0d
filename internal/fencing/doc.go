// Package fencing is the term protocol: the part of Leasehold that decides who may count.
//
// It is pure. It knows no client, no clock and no randomness; callers pass what they saw and what time it is, and get
// back a verdict, or the bytes of one JSON patch. Controller and agent share it, so that both ends of every race read
// the same page. Package mailbox, below it, translates terms from and to coordination/v1 Lease objects.
//
// # The term
//
// A term is one attempt's right to run one task: one Lease object, begun, held, spoken through and ended by
// compare-and-swap on that single object. The task's status is only the controller's record of it. The Lease is the
// only mailbox between controller and agent, therefore every race has one arbiter: the API server, at one object.
// A probe, which finds out whether an attempt had its effect, is one more attempt to this package.
//
//	state      holder    claim     submission   who moved it here
//	Granted    set       absent    absent       controller, Grant
//	Claimed    set       set       absent       agent, Claim; then Renew, any number of times; controller, Stop
//	Submitted  any       set       set          agent, Submit (ends the term)
//	Revoked    empty     any       absent       controller, Revoke (ends the term)
//
// State is a function of the Lease: see [Term.State]. A new term begins from Submitted or Revoked only.
//
// # The messages
//
// Each is one write that names its exact term; whoever comes second is refused by the API server.
//
//	Grant   create, or update with resourceVersion; clears claim, submission and stop, sets holder and attempt
//	Claim   test holder, test claim absent        -> add claim, renewTime          ([ClaimPatch])
//	Renew   test holder, test claim = mine        -> add renewTime, the note       ([RenewPatch], [Note])
//	        (a renewTime later than all that this process has sent, so that each renewal makes a version)
//	Submit  test holder, test claim = mine        -> add submission, the note      ([SubmitPatch], [Note])
//	Stop    test holder, claim, no submission     -> add stop                      ([StopPatch])
//	        (and the stop seen, if there is one)
//	Revoke  test holder, claim, no submission     -> holder = ""                   ([RevokePatch])
//	        (of a holder that is silent, overdue or was told to stop also the renewTime and the version seen, and the
//	        Lease then names the version that was ended)
//
// A stop asks the holder to end ([Stop]); it ends nothing itself, so it changes no state. Every accepted claim or renewal is
// answered with the Lease as it then stands, so the holder knows of a stop with its next renewal at the latest ([StopIn]), and
// at once if a signal makes it renew. It tells the command why, gives it the grace, and submits: Cancelled, or the success that
// the command finished meanwhile. What the term was stopped for is said by the Lease alone, never by how its Pod ended: a
// holder that was told by a signal, and could not read the Lease, submits Interrupted, and a term that bears a stop was
// stopped all the same; one that bears none was not, whatever its holder submits. A stop that is not answered in time
// ([Timing.StopPatience]) is followed by a revoke. The next grant clears it.
//
// A note is what the command has said since the last one: how far it has come, and what the next attempt is to find. It decides
// nothing. The grant carries the checkpoint over, and clears the progress.
//
// An admission policy adds what a patch of the agent's own making cannot promise: only the holder's Pod writes, the claim
// names that Pod's UID, claim and submission are written once, and a submitted term is not renewed.
//
// # The token
//
// The resourceVersion returned for the grant's write, on top of an epoch, is the fencing token ([NewToken]). The epoch is the same
// before and after the write, else the grant is void. The token rises strictly across all Leases of a cluster, so tokens of different tasks that guard one row compare, and deleting and
// creating a Lease cannot bring an old token back. From the grant to the claim nobody writes to the Lease but a revoke.
//
// # Time
//
// With D the lease duration (>= 10 s, whole seconds), everything else follows ([TimingFor]):
//
//	p = D/4         pause between renewals
//	m = D/4         margin: trust ends at start of the last successful renewal + D - m
//	q = D/6         timeout of one request
//	p + g + 10 s    from a stop with grace g, as the controller first saw it, to the revoke of a holder that did not submit
//	r = 10 %        the agent's clock runs at no less than 1 - r of the rate of the controller's
//	G = D/4 - D/10  from "trust ended" to "process tree dead"
//
// Safe: the agent's tree is dead before the controller may judge, iff m >= G + r*D. The agent counts from the *start*
// of a request, the controller from when it *observed* its effect, which is later; latency only helps.
// Alive: k failed renewals in a row are harmless, iff p + (k+1)*q + m <= D. Both hold for k = 2, see TestInequalities.
//
// Expiry is observed, never read from another clock: [Judge] wants to know since when this process has seen the record
// unchanged. renewTime is compared for equality alone; its value is for people. A held term is unchanged only while it is the
// same version: a request that arrives twice may put an old renewTime over a younger one that this process never saw. A term
// that was revoked was silent since its last version was seen only if the revoke names that one; else since the revoke was seen.
//
// What is assumed: the agent's clock is not slower than that. What is not promised: that a frozen machine which
// wakes late does nothing. For that the token exists, and it is checked where the effect is.
package fencing
