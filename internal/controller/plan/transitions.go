package plan

import v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"

//go:generate go run ../../../hack/lifecycledoc -root ../../.. -out ../../../docs/lifecycle.md

// Transition is one legal change of phase.
type Transition struct {
	From, To v1alpha1.Phase
	When     string
}

// Transitions is the lifecycle: every change of phase that may ever be written. A change that is not here is refused by
// the API server, whoever asks. The empty phase is a task that the controller has not seen yet.
var Transitions = []Transition{
	{"", v1alpha1.PhaseAvailable, "accepted"},
	{v1alpha1.PhaseAvailable, v1alpha1.PhaseClaimed, "a term was granted and its token is recorded"},
	{v1alpha1.PhaseAvailable, v1alpha1.PhaseCompleted, "another task with the same idempotency key and payload has completed: its result is this task's"},
	{v1alpha1.PhaseAvailable, v1alpha1.PhaseDeadLettered, "timeouts.totalSeconds is over, or another task with the same idempotency key and another payload runs or has completed, or the concurrency key is not free and keyPolicy is Reject, or the last attempt has used up a budget of its queue's that was lost as it ended; nothing runs, and the dead letter is written"},
	{v1alpha1.PhaseClaimed, v1alpha1.PhaseRunning, "the worker has claimed (recorded lazily: a task that ends within two seconds skips it)"},
	{v1alpha1.PhaseClaimed, v1alpha1.PhaseCompleted, "a success was submitted and verified"},
	{v1alpha1.PhaseRunning, v1alpha1.PhaseCompleted, "a success was submitted and verified"},
	{v1alpha1.PhaseClaimed, v1alpha1.PhaseAvailable, "the attempt was submitted as failed, disrupted or stopped, or never started; budget is left"},
	{v1alpha1.PhaseRunning, v1alpha1.PhaseAvailable, "the attempt was submitted as failed, disrupted or stopped; budget is left"},
	{v1alpha1.PhaseClaimed, v1alpha1.PhaseExpired, "the term was revoked after its claim, or its Lease is gone; or the attempt is over, and it was the last"},
	{v1alpha1.PhaseRunning, v1alpha1.PhaseExpired, "the term was revoked: not renewed for its duration, its Pod ended without a submission, or its Lease is gone; or the attempt is over, and it was the last"},
	{v1alpha1.PhaseClaimed, v1alpha1.PhaseProbing, "a claimed attempt has submitted something other than a success, and not that it had no effect; onLostAttempt is Reconcile, or was the queue's, and is lost"},
	{v1alpha1.PhaseRunning, v1alpha1.PhaseProbing, "the attempt has submitted something other than a success, and not that it had no effect; onLostAttempt is Reconcile, or was the queue's, and is lost"},
	{v1alpha1.PhaseExpired, v1alpha1.PhaseProbing, "the old process can no longer run, and nobody knows whether the attempt had its effect; probes are left, or onLostAttempt was the queue's, and is lost"},
	{v1alpha1.PhaseProbing, v1alpha1.PhaseCompleted, "a probe found the effect, and its result is verified"},
	{v1alpha1.PhaseProbing, v1alpha1.PhaseAvailable, "a probe found that there was no effect, or onLostAttempt was lost, and turns out to be Retry; budget is left"},
	{v1alpha1.PhaseProbing, v1alpha1.PhaseExpired, "the probe's term was revoked after its claim, or its Lease is gone; or the doubt is settled, or the last probe over, and no attempt will follow"},
	{v1alpha1.PhaseExpired, v1alpha1.PhaseAvailable, "the old process can no longer run; budget is left"},
	{v1alpha1.PhaseAvailable, v1alpha1.PhaseCancelled, "cancel is requested, or a newer task replaces this one; nothing runs"},
	{v1alpha1.PhaseClaimed, v1alpha1.PhaseCancelled, "cancel is requested, or a newer task replaces this one, and the attempt was revoked unclaimed or has submitted something other than a success"},
	{v1alpha1.PhaseRunning, v1alpha1.PhaseCancelled, "cancel is requested, or a newer task replaces this one, and the attempt has submitted something other than a success"},
	{v1alpha1.PhaseProbing, v1alpha1.PhaseCancelled, "cancel is requested, or a newer task replaces this one, and no probe's term is open, or it has submitted something other than that the effect happened"},
	{v1alpha1.PhaseExpired, v1alpha1.PhaseCancelled, "cancel is requested, or a newer task replaces this one, and the old process can no longer run"},
	{v1alpha1.PhaseExpired, v1alpha1.PhaseDeadLettered, "the old process can no longer run; the task could not start, a budget or timeouts.totalSeconds is used up, a rule or onLostAttempt says so, or no probe could tell; its dead letter is written"},
}

// IsLegal reports whether a status may go from one phase to another. Staying is legal.
func IsLegal(from, to v1alpha1.Phase) bool {
	if from == to {
		return true
	}
	for _, t := range Transitions {
		if t.From == from && t.To == to {
			return true
		}
	}
	return false
}
