package agent

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

func TestSubmissionOf(t *testing.T) {
	none := int32(-1)
	exited := func(code int) *holder.Exit { return &holder.Exit{Code: code} }
	killed := func(sig syscall.Signal) *holder.Exit { return &holder.Exit{Code: 128 + int(sig), Signal: sig} }
	written, large := result{Written: true, Content: "r"}, result{Written: true, Reason: fencing.ReasonResultTooLarge, Message: "m"}
	suspended := &fencing.Stop{Reason: fencing.ReasonSuspended}
	tests := map[string]struct {
		end    ending
		want   fencing.Outcome
		reason string
		code   int32
		result bool
	}{
		"exit 0":                         {ending{Exit: exited(0)}, fencing.Succeeded, fencing.ReasonCompleted, 0, false},
		"exit 0 with a result":           {ending{Exit: exited(0), Result: written}, fencing.Succeeded, fencing.ReasonCompleted, 0, true},
		"exit 0, result too large":       {ending{Exit: exited(0), Result: large}, fencing.Failed, fencing.ReasonResultTooLarge, 0, false},
		"exit 0, a helper was OOM":       {ending{Exit: exited(0), OOM: true}, fencing.Succeeded, fencing.ReasonCompleted, 0, false},
		"exit 3":                         {ending{Exit: exited(3)}, fencing.Failed, fencing.ReasonNonZeroExit, 3, false},
		"exit 3, result too large":       {ending{Exit: exited(3), Result: large}, fencing.Failed, fencing.ReasonNonZeroExit, 3, false},
		"exit 1, a helper was OOM":       {ending{Exit: exited(1), OOM: true}, fencing.Failed, fencing.ReasonOOMKilled, 1, false},
		"killed by the kernel":           {ending{Exit: killed(9), OOM: true}, fencing.Failed, fencing.ReasonOOMKilled, 137, false},
		"killed by somebody":             {ending{Exit: killed(9)}, fencing.Failed, fencing.ReasonSignaled, 137, false},
		"crashed":                        {ending{Exit: killed(syscall.SIGSEGV)}, fencing.Failed, fencing.ReasonSignaled, 139, false},
		"stopped, result":                {ending{Exit: exited(0), Stopped: true, Result: written}, fencing.Succeeded, fencing.ReasonCompleted, 0, true},
		"stopped, result too large":      {ending{Exit: exited(0), Stopped: true, Result: large}, fencing.Failed, fencing.ReasonResultTooLarge, 0, false},
		"stopped, no result":             {ending{Exit: exited(0), Stopped: true}, fencing.Interrupted, fencing.ReasonTerminated, 0, false},
		"stopped, exit 1":                {ending{Exit: exited(1), Stopped: true, Result: written}, fencing.Interrupted, fencing.ReasonTerminated, 1, false},
		"stopped, killed":                {ending{Exit: killed(9), Stopped: true}, fencing.Interrupted, fencing.ReasonTerminated, 137, false},
		"stopped, OOM":                   {ending{Exit: killed(9), Stopped: true, OOM: true}, fencing.Interrupted, fencing.ReasonTerminated, 137, false},
		"stopped before the start":       {ending{Stopped: true}, fencing.Interrupted, fencing.ReasonTerminated, none, false},
		"ordered, exit 1":                {ending{Exit: exited(1), Ordered: suspended}, fencing.Cancelled, fencing.ReasonSuspended, 1, false},
		"ordered, exit 0, no result":     {ending{Exit: exited(0), Ordered: suspended}, fencing.Cancelled, fencing.ReasonSuspended, 0, false},
		"ordered, result":                {ending{Exit: exited(0), Ordered: suspended, Result: written}, fencing.Succeeded, fencing.ReasonCompleted, 0, true},
		"ordered, result too large":      {ending{Exit: exited(0), Ordered: suspended, Result: large}, fencing.Failed, fencing.ReasonResultTooLarge, 0, false},
		"ordered, killed, OOM":           {ending{Exit: killed(9), Ordered: suspended, OOM: true}, fencing.Cancelled, fencing.ReasonSuspended, 137, false},
		"ordered and stopped":            {ending{Exit: killed(15), Ordered: suspended, Stopped: true}, fencing.Cancelled, fencing.ReasonSuspended, 143, false},
		"ordered when overdue":           {ending{Exit: killed(9), Ordered: suspended, Overdue: true}, fencing.Failed, fencing.ReasonDeadlineExceeded, 137, false},
		"ordered, then fenced":           {ending{Exit: killed(9), Ordered: suspended, Fenced: holder.WhyUntrusted}, fencing.Fenced, fencing.ReasonRenewalFailed, 137, false},
		"ordered before the start":       {ending{Ordered: suspended, Stopped: true}, fencing.Cancelled, fencing.ReasonSuspended, none, false},
		"overdue, killed":                {ending{Exit: killed(9), Overdue: true}, fencing.Failed, fencing.ReasonDeadlineExceeded, 137, false},
		"overdue, exit 0, no result":     {ending{Exit: exited(0), Overdue: true}, fencing.Failed, fencing.ReasonDeadlineExceeded, 0, false},
		"overdue, result":                {ending{Exit: exited(0), Overdue: true, Result: written}, fencing.Succeeded, fencing.ReasonCompleted, 0, true},
		"overdue, then stopped":          {ending{Exit: killed(9), Overdue: true, Stopped: true}, fencing.Failed, fencing.ReasonDeadlineExceeded, 137, false},
		"overdue, then fenced":           {ending{Exit: killed(9), Overdue: true, Fenced: holder.WhyUntrusted}, fencing.Fenced, fencing.ReasonRenewalFailed, 137, false},
		"overdue before the start":       {ending{Overdue: true}, fencing.Failed, fencing.ReasonDeadlineExceeded, none, false},
		"fenced":                         {ending{Exit: killed(15), Fenced: holder.WhyUntrusted}, fencing.Fenced, fencing.ReasonRenewalFailed, 143, false},
		"fenced, exit 0 and a result":    {ending{Exit: exited(0), Fenced: holder.WhyUntrusted, Result: written}, fencing.Fenced, fencing.ReasonRenewalFailed, 0, false},
		"fenced and stopped":             {ending{Exit: exited(0), Fenced: holder.WhyRefused, Stopped: true, Result: written}, fencing.Fenced, fencing.ReasonRenewalFailed, 0, false},
		"fenced before the start":        {ending{Fenced: holder.WhyUntrusted}, fencing.Fenced, fencing.ReasonRenewalFailed, none, false},
		"not found":                      {ending{Start: fs.ErrNotExist}, fencing.Failed, fencing.ReasonCommandNotRunnable, 127, false},
		"not executable":                 {ending{Start: errors.New("exec format error")}, fencing.Failed, fencing.ReasonCommandNotRunnable, 126, false},
		"not found, and told to stop":    {ending{Start: fs.ErrNotExist, Stopped: true}, fencing.Failed, fencing.ReasonCommandNotRunnable, 127, false},
		"a message far above the limit":  {ending{Exit: exited(1), Note: strings.Repeat("x", 9000)}, fencing.Failed, fencing.ReasonNonZeroExit, 1, false},
		"a result that grows sixfold":    {ending{Exit: exited(0), Result: result{Written: true, Content: strings.Repeat("\x01", 9000)}}, fencing.Failed, fencing.ReasonResultTooLarge, 0, false},
		"a result of the largest size":   {ending{Exit: exited(0), Result: result{Written: true, Content: strings.Repeat("x", fencing.MaxResultBytes)}}, fencing.Succeeded, fencing.ReasonCompleted, 0, true},
		"a full result and full message": {ending{Exit: exited(0), Note: strings.Repeat("\n", 9000), Result: result{Written: true, Content: strings.Repeat("\n", 20000)}}, fencing.Succeeded, fencing.ReasonCompleted, 0, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.end.Token = testToken
			got := tc.end.submission()
			if got.Outcome != tc.want || got.Reason != tc.reason || (got.Result != nil) != tc.result || got.Token != testToken {
				t.Errorf("%s/%s, result %t; want %s/%s, %t", got.Outcome, got.Reason, got.Result != nil, tc.want, tc.reason, tc.result)
			}
			if code := got.ExitCode; (code == nil) != (tc.code == none) || (code != nil && *code != tc.code) {
				t.Errorf("exit code %v, want %d", code, tc.code)
			}
			if encoded, err := got.Encode(); err != nil || len(encoded) > fencing.MaxSubmissionBytes {
				t.Errorf("encoded in %d bytes, %v", len(encoded), err)
			}
			if back := got.Verify(testToken); back.Outcome != got.Outcome {
				t.Errorf("the controller makes %s of %s", back.Outcome, got.Outcome)
			}
		})
	}
}
