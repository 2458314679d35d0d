package agent

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// leaves puts what an earlier attempt left on the Lease.
func (f *talker) leaves(checkpoint string) {
	f.srv.Patch([]byte(`[{"op":"add","path":"/metadata/annotations/leasehold.io~1checkpoint","value":"` + checkpoint + `"}]`))
}

func (f *talker) write(checkpoint string) {
	must(f.t, os.WriteFile(f.agent.Config.CheckpointPath, []byte(checkpoint), 0o600))
}

func (f *talker) onLease(name, want string) {
	f.t.Helper()
	eventually(f.t, name+" is "+want, func() bool { return f.srv.Annotation(name) == want })
}

func TestTheCheckpointReachesTheNextAttemptAndComesFromTheLast(t *testing.T) {
	t.Parallel()
	var found, task string
	f := newTalker(t, eager, func(f *talker) int {
		raw, err := os.ReadFile(f.agent.Config.CheckpointPath)
		must(f.t, err)
		found = string(raw)
		_, task = f.say(http.MethodGet, "/v1/task", "")
		f.write("row 2")
		f.onLease(fencing.CheckpointAnnotation, "row 2") // with a renewal
		f.tell("/v1/checkpoint", `{"checkpoint":"row 3"}`)
		f.onLease(fencing.CheckpointAnnotation, "row 3")
		f.tell("/v1/progress", `{"current":3,"total":9}`)
		f.onLease(fencing.ProgressAnnotation, `{"current":3,"total":9}`)
		f.write("row 4") // and ends at once
		return 1
	})
	f.leaves("row 1")
	f.run()
	if found != "row 1" || !strings.Contains(task, `"checkpoint":"row 1"`) {
		t.Errorf("the command found %q, and %s", found, task)
	}
	f.onLease(fencing.CheckpointAnnotation, "row 4") // with the submission
	f.wantSubmitted(fencing.Failed, fencing.ReasonNonZeroExit)
}

func TestACheckpointThatIsLeftAloneStands(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*talker){
		"untouched":  func(*talker) {},
		"taken away": func(f *talker) { must(f.t, os.Remove(f.agent.Config.CheckpointPath)) },
		"too large":  func(f *talker) { f.write(strings.Repeat("x", fencing.MaxCheckpointBytes+1)) },
		"no text":    func(f *talker) { f.write("\xff") },
		"a directory": func(f *talker) {
			must(f.t, os.Remove(f.agent.Config.CheckpointPath))
			must(f.t, os.Mkdir(f.agent.Config.CheckpointPath, 0o700))
		},
		"a link": func(f *talker) {
			must(f.t, os.Remove(f.agent.Config.CheckpointPath))
			must(f.t, os.Symlink(f.agent.Config.TokenPath, f.agent.Config.CheckpointPath))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTalker(t, eager, func(f *talker) int {
				do(f)
				n := f.srv.Count(agenttest.Renew)
				eventually(f.t, "renewed", func() bool { return f.srv.Count(agenttest.Renew) > n+1 })
				return 0
			})
			f.leaves("row 1")
			f.wantCode(f.run(), 0)
			f.onLease(fencing.CheckpointAnnotation, "row 1")
		})
	}
}

func TestAnEmptyCheckpointTakesItBack(t *testing.T) {
	t.Parallel()
	f := newTalker(t, patient, func(f *talker) int { f.tell("/v1/checkpoint", `{"checkpoint":""}`); return 0 })
	f.leaves("row 1")
	f.run()
	f.onLease(fencing.CheckpointAnnotation, "")
}

// TestANoteNeverCostsTheTerm: an API server, or a policy, that does not take what a renewal or the submission carries still gets a
// renewal and a submission.
func TestANoteNeverCostsTheTerm(t *testing.T) {
	t.Parallel()
	refused := map[agenttest.Kind]int{}
	f := newTalker(t, eager, func(f *talker) int {
		f.write("row 2")
		eventually(f.t, "a renewal with it was refused, and others were not", func() bool { return f.srv.Count(agenttest.Renew) > 5 })
		f.write("row 3")
		return 0
	})
	f.writeResult("r")
	f.script(func(r agenttest.Request) agenttest.Action {
		// The first renewal after the file appeared carries it; so does the submission. Both are refused once, for their size.
		carries := r.Kind == agenttest.Submit
		if r.Kind == agenttest.Renew {
			_, err := os.Stat(f.agent.Config.CheckpointPath)
			carries = err == nil
		}
		if carries && refused[r.Kind] == 0 {
			refused[r.Kind]++
			return agenttest.Answer(http.StatusRequestEntityTooLarge, `{"kind":"Status"}`)
		}
		return agenttest.Serve
	})
	f.wantCode(f.run(), 0)
	if got := f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted); *got.Result != "r" {
		t.Errorf("submitted %+v", got)
	}
	if refused[agenttest.Renew] != 1 || refused[agenttest.Submit] != 1 || f.srv.Annotation(fencing.CheckpointAnnotation) != "" {
		t.Errorf("refused %v, checkpoint %q", refused, f.srv.Annotation(fencing.CheckpointAnnotation))
	}
}

// TestABrokenPolicyCostsNoCheckpoint: what was not taken for somebody else's reason is sent again, with a renewal and with the
// submission.
func TestABrokenPolicyCostsNoCheckpoint(t *testing.T) {
	t.Parallel()
	refused := map[agenttest.Kind]int{}
	f := newTalker(t, eager, func(f *talker) int {
		f.write("row 2")
		f.onLease(fencing.CheckpointAnnotation, "row 2")
		f.write("row 3") // and ends at once
		return 0
	})
	f.writeResult("r")
	f.script(func(r agenttest.Request) agenttest.Action {
		_, err := os.Stat(f.agent.Config.CheckpointPath)
		if r.Kind == agenttest.Claim || err != nil || refused[r.Kind] > 0 {
			return agenttest.Serve
		}
		refused[r.Kind]++
		return unreasoned
	})
	f.wantCode(f.run(), 0)
	if got := f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted); *got.Result != "r" {
		t.Errorf("submitted %+v", got)
	}
	f.onLease(fencing.CheckpointAnnotation, "row 3")
	if refused[agenttest.Renew] != 1 || refused[agenttest.Submit] != 1 {
		t.Errorf("refused %v", refused)
	}
}

// TestTheCommandIsNotStartedWithoutItsCheckpoint: the claim was accepted, and its answer cut short. It is asked again.
func TestTheCommandIsNotStartedWithoutItsCheckpoint(t *testing.T) {
	t.Parallel()
	var found string
	f := newTalker(t, patient, func(f *talker) int {
		raw, _ := os.ReadFile(f.agent.Config.CheckpointPath)
		found = string(raw)
		return 0
	})
	f.leaves("row 1")
	f.agent.Mailbox = &cutShort{Mailbox: f.agent.Mailbox}
	f.wantCode(f.run(), 0)
	if found != "row 1" {
		t.Errorf("the command found %q", found)
	}
}

// cutShort loses the body of the first answer.
type cutShort struct {
	Mailbox
	done bool
}

func (c *cutShort) Claim(ctx context.Context, now time.Time) Reply {
	reply := c.Mailbox.Claim(ctx, now)
	if !c.done {
		c.done = true
		reply.Heard, reply.Unread = fencing.Heard{}, true
	}
	return reply
}

func TestWhatRenewalsCarry(t *testing.T) {
	var n notes
	say := fencing.Note{Progress: new("p"), Checkpoint: new("c")}
	n.settle(say, fencing.Unavailable)
	if n.progress != "" || n.checkpoint != "" {
		t.Errorf("taken for known: %+v", n)
	}
	n.settle(say, fencing.Accepted)
	n.settle(fencing.Note{Progress: new("q")}, fencing.Accepted)
	if n.progress != "q" || n.checkpoint != "c" {
		t.Errorf("known is %+v", n)
	}
}
