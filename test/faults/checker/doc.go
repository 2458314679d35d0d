// Package checker judges from independent evidence whether Leasehold kept its promises while it was hurt.
//
// It knows nothing of the operator's or the agent's code: names of annotations and fields are spelled out here, as they are on
// the wire. It is pure: evidence in, violations out.
//
// # Evidence
//
//	source                 who writes it                what it shows
//	audit log              the API server               every write to a Lease or task that was accepted or refused, by whom,
//	                                                    with the object as it became; every Pod made
//	last objects           the API server, read once    where every Lease and task stood at the end
//	journals               each process of a worker     when it started, that it ran (a beat every 100 ms), when it was last
//	                                                    seen, and that it was frozen (a pause of 2 s or more)
//	accepted rows          PostgreSQL                   what a store that compares tokens let through, in commit order
//	refused rows           PostgreSQL                   what it did not
//	outages                whoever stops the API server when a write may have happened that the audit log does not have
//
// Writes are ordered by the resourceVersion that they got, which is etcd's order of commits, never by clocks. All clocks that
// are compared are one: the nodes of the local cluster share a machine.
//
// The audit log holds each object as it became. So a change that no request on record made is seen, too. It is allowed only if the
// API server was being stopped meanwhile, or a request on that object ended without an answer; then its effect is followed,
// its author is not judged, and it is counted as Unaudited. Otherwise it is a violation: the evidence has a hole.
//
// # Rules
//
// A term is one grant on one Lease, up to the next grant. It is open while it has a holder and no submission. The token of a
// term is epoch * 2^44 + the resourceVersion of its grant.
//
//	rule                    what must hold                                                           evidence
//	Evidence                every source is there, covers the whole time, and has no hole            all
//	GrantOverOpen           a grant is made over a term that is submitted or revoked                 audit log
//	OneClaim                at most one claim is accepted for a term                                 audit log
//	OneSubmission           at most one submission is accepted for a term                            audit log
//	Erased                  only a grant removes a claim or a submission                             audit log
//	ClaimByHolder           the Pod that claims is the one that holder and claim name                audit log
//	RenewByClaimer          whoever renews has claimed                                               audit log
//	SubmitByClaimer         whoever submits has claimed                                              audit log
//	ClosedTerm              no claim, renewal or submission is accepted once a term is over          audit log
//	NoEarlyRevoke           a claimed term is revoked a lease duration after its last renewal, or    audit log, journals
//	                        its processes have ended
//	TokenOfGrant            a task's token is that of a grant to its holder                          audit log
//	TokensRise              the tokens of all grants on record rise in the order of the grants       audit log
//	PhaseFinal              a task that is Completed or DeadLettered stays as it is                  audit log
//	StatusNeverFalls        a task's token and attempt never fall                                    audit log
//	CompletedBySubmission   a task is Completed after a success was submitted under its token        audit log
//	SubmissionKept          a success that was submitted completes its task; another submission is   audit log
//	                        in its history
//	OnePod                  each attempt has Pods of one name, the holder's, none made after its     audit log
//	                        claim
//	EveryTaskEnds           a task that was not deleted is Completed or DeadLettered at the end      audit log
//	OneStart                the command starts at most once for a term                               journals
//	StartAfterClaim         it starts in the Pod, and after the claim, of a term                     journals, audit log
//	DeadBeforeSubmission    no process of a term beats once its submission was received              journals, audit log
//	NoOverlap               no process of an attempt beats after a later attempt's command started   journals, audit log
//	RowsFenced              accepted rows of a task never go back to a lower token                   PostgreSQL
//	RowsOfTerms             every row carries the token of a term of its task                        PostgreSQL, audit log
//	LastRowCompletes        the last row of a Completed task carries the token that completed it     PostgreSQL, audit log
//
// NoOverlap is not promised for a task with onRenewalFailure: Continue, nor for an attempt that was frozen. An overlap that a
// freeze explains (it ended less than a lease duration before the later attempt started, or later) is counted. The
// submission of a term whose Lease somebody deleted before it was recorded is lost with it; so it is counted, not kept.
package checker
