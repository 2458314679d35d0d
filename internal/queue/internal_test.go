package queue

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestNothingIsLeft: of tasks that have left, nothing stays: no tenant, no level, no flow. And a tenant that only has a debt is forgotten
// as soon as it is paid.
func TestNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		q := New(Limits{Concurrency: 3, Default: Share{Concurrency: 2}}, now)
		ids := rapid.SliceOfN(rapid.StringMatching("[a-p]"), 1, 80).Draw(t, "ids")
		for i, id := range ids {
			task := Task{ID: id, Name: id, Tenant: string(id[0]%5 + 'A'), Priority: int32(id[0] % 3), Created: now.Add(time.Duration(-i) * time.Second)}
			switch rapid.IntRange(0, 3).Draw(t, "call") {
			case 0, 1:
				q.Join(task, now)
			case 2:
				q.Hold(id, id, task.Tenant)
			default:
				q.Leave(id)
			}
			q.Dispatch(now)
			for _, l := range q.levels {
				if l.ready.Len() == 0 && l.pending == 0 {
					t.Fatalf("level %d is empty", l.priority)
				}
				if l.idle.Len() > 0 && l.idle.flows[0].tag <= l.now {
					t.Fatalf("level %d keeps a debt that is paid", l.priority)
				}
			}
		}
		for _, id := range ids {
			q.Leave(id)
		}
		if len(q.members)+len(q.tenants)+len(q.levels)+len(q.holders)+q.pending > 0 {
			t.Fatalf("left: %d members, %d tenants, %d levels, %d holders, %d pending", len(q.members), len(q.tenants), len(q.levels), len(q.holders), q.pending)
		}
	})
}

// TestDebtsAreBounded: the tenant is a string that producers make up. While one of them always waits, and each task brings a new name,
// the virtual time stands still, and no debt is ever paid.
func TestDebtsAreBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	q := New(Limits{Concurrency: 1}, now)
	last := ""
	for i := range 5 * maxDebts {
		id := strconv.Itoa(i)
		q.Join(Task{ID: id, Name: id, Tenant: "tenant " + id, Created: now}, now)
		q.Leave(last)
		if admitted, _ := q.Dispatch(now); len(admitted) > 0 {
			last = admitted[0]
		}
		q.Join(Task{ID: "waits", Name: "waits", Tenant: "waits", Priority: 0, Created: now.Add(time.Hour)}, now)
	}
	if len(q.tenants) > maxDebts+10 {
		t.Errorf("%d tenants are remembered", len(q.tenants))
	}
}

// TestResultsAreBounded: a window keeps the newest results, and counts those that it keeps.
func TestResultsAreBounded(t *testing.T) {
	var w results
	at := time.Unix(1_000_000, 0)
	for i := range maxResults + 500 {
		w.add(result{at: at, isFailure: i < 700, fingerprint: "x"}, time.Hour)
	}
	if len(w.all) != maxResults || w.failures != 200 || w.same["x"] != 200 {
		t.Errorf("%d results, %d failures, %d of them the same", len(w.all), w.failures, w.same["x"])
	}
	w.add(result{at: at.Add(time.Hour)}, time.Hour)
	if len(w.all) != 1 || w.failures != 0 || len(w.same) != 0 {
		t.Errorf("after an hour: %d results, %d failures, %d fingerprints", len(w.all), w.failures, len(w.same))
	}
}
