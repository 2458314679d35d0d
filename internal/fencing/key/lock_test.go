package key_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// TestCase12AnyTextIsAKey: whatever the key, its Lease has a valid name, no other key or kind has the same, and what was
// written is read back.
func TestCase12AnyTextIsAKey(t *testing.T) {
	names := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringN(1, 253, 253).Draw(t, "key")
		for _, kind := range []key.Kind{key.Idempotency, key.Concurrency} {
			name := key.Name(kind, value)
			if problems := validation.IsDNS1123Label(name); len(problems) > 0 || !strings.HasPrefix(name, "lh-key-") {
				t.Fatalf("name %s: %v", name, problems)
			}
			full := fmt.Sprintf("%s %q", kind, value)
			if was, taken := names[name]; taken && was != full {
				t.Fatalf("%s names %s and %s", name, was, full)
			}
			names[name] = full
			by := &key.Claimant{UID: "uid", Name: "task", Duration: 30 * time.Second, BlocksWhenDead: rapid.Bool().Draw(t, "blocks")}
			if kind == key.Idempotency {
				by.Hash = "abc"
			}
			seen := &key.Lock{ResourceVersion: "7", BlockedBy: []string{"dl-2", "dl-1"}}
			want := key.Take(seen, kind, value, by, start)
			if diff := cmp.Diff(want, key.Read(want.Lease("ns")), sameTime, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("(-written +read):\n%s", diff)
			}
		}
	})
}

var sameTime = cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })

func TestAnAnswerIsReadBack(t *testing.T) {
	answer := &key.Answer{Task: "t", TaskUID: "uid", Hash: "abc", Result: new("<&> \U0001F600\n"), Time: metav1.NewTime(start), RetentionSeconds: 60}
	by := &key.Claimant{UID: "uid", Name: "t", Hash: "abc", Duration: 30 * time.Second, BlocksWhenDead: true}
	want := key.Record(&key.Lock{ResourceVersion: "7", TakenAt: start.Add(-time.Hour), BlockedBy: []string{"dl"}}, "k", by, answer)
	got := key.Read(want.Lease("ns"))
	if diff := cmp.Diff(want, got, sameTime, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	if len(got.BlockedBy) > 0 || got.BlocksWhenDead {
		t.Errorf("a success ends the block: %+v", got)
	}
	if !got.Answer.Expiry().Equal(start.Add(time.Minute)) {
		t.Errorf("expires %s", got.Answer.Expiry())
	}
}

// TestTheLargestAnswerFits: the annotations of an object may have 256 KiB. A result that was submitted is encoded as it was then.
func TestTheLargestAnswerFits(t *testing.T) {
	result := strings.Repeat("\x01", 8000) // six bytes each, once encoded
	sub, err := fencing.Submission{Outcome: fencing.Succeeded, Result: &result}.Encode()
	if err != nil || len(sub) > fencing.MaxSubmissionBytes {
		t.Fatalf("%d bytes: %v", len(sub), err)
	}
	lock := key.Record(nil, strings.Repeat("k", 253), &key.Claimant{UID: "uid"}, &key.Answer{Result: &result, TaskUID: "uid", Time: metav1.NewTime(start)})
	size := 0
	for name, value := range lock.Lease("ns").Annotations {
		size += len(name) + len(value)
	}
	if size > fencing.MaxSubmissionBytes+2048 {
		t.Errorf("%d bytes of annotations for a submission of %d", size, len(sub))
	}
}

func TestWhatIsNoKeyLeaseIsNotRead(t *testing.T) {
	good := key.Take(nil, key.Concurrency, "k", &key.Claimant{UID: "uid"}, start)
	for what, name := range map[string]string{"another name": "app", "another key's name": key.Name(key.Concurrency, "other"), "the other kind's": key.Name(key.Idempotency, "k")} {
		lease := good.Lease("ns")
		if lease.Name = name; key.Read(lease) != nil {
			t.Errorf("%s is read", what)
		}
	}
	lease := good.Lease("ns")
	if delete(lease.Labels, key.Label); key.Read(lease) != nil {
		t.Error("without its label it is read")
	}
	if lease = good.Lease("ns"); lease.Labels[mailbox.TaskLabel] != "uid" || len(lease.OwnerReferences) > 0 {
		t.Errorf("Lease %+v", lease.ObjectMeta)
	}
	lease = key.Take(nil, key.Idempotency, "k", &key.Claimant{UID: "uid"}, start).Lease("ns")
	lease.Annotations[key.AnswerAnnotation] = "{"
	if l := key.Read(lease); l == nil || l.Answer != nil || l.Holder != "uid" {
		t.Errorf("an answer that cannot be read counts as none: %+v", l)
	}
}

// TestABlockIsBounded: a replay of a replay of a replay that dies again does not let the Lease grow for ever.
func TestABlockIsBounded(t *testing.T) {
	l := &key.Lock{Kind: key.Concurrency, Value: "k", Holder: "uid", BlocksWhenDead: true}
	for i := range 100 {
		l.Holder = "uid"
		l = key.Block(l, l.Letters(fmt.Sprintf("dl-%d", i)))
	}
	if len(l.BlockedBy) != 8 || l.BlockedBy[0] != "dl-99" || l.Holder != "" {
		t.Errorf("blocked by %v", l.BlockedBy)
	}
}
