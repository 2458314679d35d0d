//go:build linux

package api

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// agentStory is one task's way to its end if no agent dies, and what a death changes.
type agentStory struct {
	job    job
	writes []string // all that it is made of, if the machine is quick enough; a slow one renews once more
	end    string   // of every attempt: reason and evidence
	// costs is the end instead of an attempt whose agent dies there. Once the submission has landed, a death costs nothing.
	costs map[string]string
}

const agentAttempts = 2

// TestTheAgentDiesAfterEveryWrite plays tasks to their end again and again, with the running operator and a node played by
// the test, and lets the agent die right before or right after its first write, its second, and so on. The operator learns
// of it as it always does: the kubelet tells that the worker container has ended. The end must follow from what the Lease
// said at that moment, with one Pod an attempt.
//
// The lease is longer than this test has patience for: whoever waited for a term to expire would not be done in time. After a
// restart in place it is as short as may be: what the second process tells says nothing of the first, only time does.
func TestTheAgentDiesAfterEveryWrite(t *testing.T) {
	costs := func(beforeClaim, claimed, beforeSubmit string) map[string]string {
		return map[string]string{"before Claim": beforeClaim, "before Submit": beforeSubmit,
			"after Claim": claimed, "before Renew": claimed, "after Renew": claimed}
	}
	const own = "" // as if nobody had died
	// A termination message tells of an outcome that was not submitted. It explains the loss, and completes nothing.
	killed := costs("StartFailed by Pod", "WorkerVanished by Pod", "SubmissionLost by Pod")
	killedFailing := costs("StartFailed by Pod", "WorkerVanished by Pod", "NonZeroExit by Pod")
	// A second process claims a term that nobody has claimed, and leaves every other one alone.
	restarted := costs(own, "ClaimRefused by Pod", "ClaimRefused by Pod")
	smooth := []string{"Claim", "Renew", "Renew", "Submit"}
	rough := []string{"Claim", "Renew", "Renew", "Renew", "Submit", "Repeat"} // the first renewal is the claim's repeat
	failing := []string{"Claim", "Renew", "Submit", "Claim", "Renew", "Submit"}

	stories := map[string]agentStory{
		"succeeds": {job: job{Renewals: 2},
			writes: smooth, end: "Completed by Submission", costs: killed},
		"succeeds, and answers are lost": {job: job{Renewals: 2, LosesAnswers: true},
			writes: rough, end: "Completed by Submission", costs: killed},
		"fails until it is given up": {job: job{Renewals: 1, ExitCode: 1},
			writes: failing, end: "NonZeroExit by Submission", costs: killedFailing},
		"succeeds, restarted in place": {job: job{Renewals: 2, Restarts: true},
			writes: smooth, end: "Completed by Submission", costs: restarted},
		"succeeds, restarted in place, and answers are lost": {job: job{Renewals: 2, Restarts: true, LosesAnswers: true},
			writes: rough, end: "Completed by Submission", costs: restarted},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("nobody dies", func(t *testing.T) {
				t.Parallel()
				story.play(t, fate{})
			})
			for i, write := range story.writes {
				for side, before := range map[string]bool{"before": true, "after": false} {
					t.Run(fmt.Sprintf("dead %s write %d, %s", side, i+1, write), func(t *testing.T) {
						t.Parallel()
						story.play(t, fate{Write: i + 1, Before: before})
					})
				}
			}
		})
	}
}

func (story agentStory) play(t *testing.T, fate fate) {
	t.Helper()
	k := newKubelet(set(t, nil), story.job, fate)
	k.task = k.start("mortal", func(task *v1alpha1.LeasedTask) {
		task.Spec.Lease.DurationSeconds = int32(2 * patience.Seconds())
		if story.job.Restarts {
			task.Spec.Lease.DurationSeconds = int32(fencing.MinDuration.Seconds())
		}
		task.Spec.Retry.MaxAttempts = agentAttempts
	})
	k.untilFinished()
	if diff := gocmp.Diff(story.ending(k.death), k.endingOf(k.task)); diff != "" {
		t.Errorf("dead %+v: -want +got:\n%s\n%+v", k.death, diff, k.task.Status.History)
	}
	for pod, children := range k.ran {
		if children > 1 {
			t.Errorf("dead %+v: %d children ran in Pod %s", k.death, children, pod)
		}
	}
	if kinds := slices.Compact(k.writes); fate.Write == 0 && !slices.Equal(kinds, slices.Compact(slices.Clone(story.writes))) {
		t.Errorf("the story is made of %v, want %v", kinds, story.writes)
	}
	if fate.Write > 0 && k.death == (death{}) {
		t.Errorf("nobody died")
	}
}

// ending is how the story ends if an agent dies there.
func (story agentStory) ending(d death) (e ending) {
	for e.Phase == "" {
		e.Attempts++
		e.Pods++
		end := story.end
		if d.Attempt == e.Pods {
			end = cmp.Or(story.costs[d.Where], end)
		}
		e.Ends = append(e.Ends, end)
		switch end {
		case "Completed by Submission":
			e.Phase, e.Result = v1alpha1.PhaseCompleted, "42"
		case "SubmissionLost by Pod", "ClaimRefused by Pod": // not the worker's fault
			e.Disruptions++
		default:
			e.Failures++
		}
		if e.Failures == agentAttempts {
			e.Phase = v1alpha1.PhaseDeadLettered
		}
	}
	return e
}
