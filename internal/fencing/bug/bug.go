// Package bug names the mistakes that a term protocol can be built with, so that the tests of the protocol can be tested:
// each is put in on purpose, behind the build tag deliberatebugs, and must be found (`make selftest`). Without the tag [Is]
// is the constant false and the compiler leaves nothing of them.
//
// With the tag, the environment variable LEASEHOLD_BUG chooses one by name; unset, the build behaves as any other.
package bug

// Name names one mistake.
type Name string

// The mistakes, and what each does.
const (
	// NoHolderTest: a submission does not test who holds the term, so a revoked worker's last word is taken.
	NoHolderTest Name = "NoHolderTest"
	// NoNonce: every process of a Pod claims under the same name, so a restarted container takes the term for its own.
	NoNonce Name = "NoNonce"
	// WorkerClockExpiry: a term expires one duration after its renewTime, which the worker's clock wrote.
	WorkerClockExpiry Name = "WorkerClockExpiry"
	// NoLiveRead: dangerous decisions rest on the cache.
	NoLiveRead Name = "NoLiveRead"
	// NoSelfFence: a worker that cannot renew runs on.
	NoSelfFence Name = "NoSelfFence"
	// GrantOverHeld: an expired term is not revoked before the next one is granted over it.
	GrantOverHeld Name = "GrantOverHeld"
	// GrantOverSubmission: a Pod that ended is a lost attempt, without a look at what its agent submitted.
	GrantOverSubmission Name = "GrantOverSubmission"
	// SubmissionDropped: an agent whose trust has ended gives up the submission of a command that ended in time.
	SubmissionDropped Name = "SubmissionDropped"
	// ReleaseOnPodPhase: a Pod that is gone or Failed counts as a process that has ended.
	ReleaseOnPodPhase Name = "ReleaseOnPodPhase"
	// RetryUncertain: an attempt that may have had its effect is followed by another, whatever onLostAttempt says.
	RetryUncertain Name = "RetryUncertain"
)

// All lists them.
func All() []Name {
	return []Name{NoHolderTest, NoNonce, WorkerClockExpiry, NoLiveRead, NoSelfFence, GrantOverHeld, GrantOverSubmission,
		SubmissionDropped, ReleaseOnPodPhase, RetryUncertain}
}
