package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// backlog is a queue with 10,000 tasks that wait, of some tenants and priorities, and 50 that run.
func backlog(tenants, priorities int) (*queue.Queue, []queue.Task, time.Time) {
	now := epoch.Add(time.Hour)
	q := queue.New(queue.Limits{Concurrency: 50, Default: queue.Share{Concurrency: 50}, Ageing: time.Minute}, now)
	tasks := make([]queue.Task, 10_050)
	for i := range tasks {
		id := fmt.Sprintf("task-%05d", i)
		tasks[i] = queue.Task{ID: id, Name: id, Tenant: fmt.Sprint("tenant-", i%tenants), Priority: int32(i % priorities), Created: epoch.Add(time.Duration(i*7919%3600) * time.Second)}
		if i < 50 {
			q.Hold(id, id, tasks[i].Tenant)
		} else {
			q.Join(tasks[i], now)
		}
	}
	q.Dispatch(now)
	return q, tasks, now
}

var shapes = []struct{ tenants, priorities int }{{1, 1}, {20, 3}, {1000, 10}, {10_000, 1}}

// BenchmarkDispatch: one of 50 ends, the next of 10,000 starts, and a new one comes.
func BenchmarkDispatch(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("tenants=%d/priorities=%d", s.tenants, s.priorities), func(b *testing.B) {
			q, tasks, now := backlog(s.tenants, s.priorities)
			byID := map[string]queue.Task{}
			for _, t := range tasks {
				byID[t.ID] = t
			}
			ends := tasks[0].ID
			for b.Loop() {
				q.Leave(ends)
				back := byID[ends]
				back.Created = now
				admitted, _ := q.Dispatch(now)
				if len(admitted) != 1 {
					b.Fatal(len(admitted))
				}
				q.Join(back, now)
				ends = admitted[0]
			}
		})
	}
}

// BenchmarkTurn is of one of 10,000 that wait.
func BenchmarkTurn(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("tenants=%d/priorities=%d", s.tenants, s.priorities), func(b *testing.B) {
			q, tasks, now := backlog(s.tenants, s.priorities)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if q.Turn(tasks[50+i].ID, now).Waiting == nil {
					b.Fatal("does not wait")
				}
				i = (i + 7919) % 10_000
			}
		})
	}
}

// BenchmarkSeed is what a new leader does: 10,000 join, and nothing is known of their order.
func BenchmarkSeed(b *testing.B) {
	for _, s := range shapes {
		b.Run(fmt.Sprintf("tenants=%d/priorities=%d", s.tenants, s.priorities), func(b *testing.B) {
			for b.Loop() {
				backlog(s.tenants, s.priorities)
			}
		})
	}
}

// BenchmarkCounts is for the status, once in some seconds.
func BenchmarkCounts(b *testing.B) {
	q, _, now := backlog(1000, 10)
	for b.Loop() {
		q.Counts(now)
	}
}
