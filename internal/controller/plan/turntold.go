package plan

import (
	"cmp"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// turnOf says what a task waits for in its queue, about where it stands, and who holds the capacity. So that a task is written a few
// times and not whenever another one has ended, what stands is kept until the reason is another one, or its place has halved: who holds
// the capacity is as of then.
func (s *Snapshot) turnOf(w *queue.Waiting) waiting {
	stands := s.placeUnder(w) + strconv.Itoa(roughly(w.Position))
	if w.Reason == queue.QueuePaused {
		stands = s.pausedQueue()
	}
	was := meta.FindStatusCondition(s.Task.Status.Conditions, v1alpha1.ConditionWaiting)
	if was != nil && was.Status == metav1.ConditionTrue {
		isSame := was.Reason == string(w.Reason) && strings.HasPrefix(was.Message+";", stands+";")
		if isSame || s.isNoNews(was, w) {
			return waiting{was.Reason, was.Message}
		}
	}
	return waiting{string(w.Reason), stands + byWhom(w)}
}

// isNoNews reports whether the task was told of another capacity that is short, and its place is what it was told. Where two limits
// bind about as much, one does now and the other a moment later, and thousands of tasks would be written at each look. Under a limit of its
// tenant its place is another one, among fewer: then it is no news either that the place is behind the one that it was told.
func (s *Snapshot) isNoNews(was *metav1.Condition, w *queue.Waiting) bool {
	told := s.limitOf(queue.Reason(was.Reason))
	if told.Limit == 0 || s.limitOf(w.Reason).Limit == 0 {
		return false
	}
	place, isSame := strings.CutPrefix(was.Message, s.placeUnder(told))
	place, _, _ = strings.Cut(place, ";")
	n, err := strconv.Atoi(place)
	if !isSame || err != nil || was.Reason == string(w.Reason) {
		return false
	}
	now, isOfTenant := roughly(w.Position), string(queue.TenantConcurrency)
	return now == n || now > n && (was.Reason == isOfTenant) != (string(w.Reason) == isOfTenant)
}

// limitOf is a limit of capacity as the queue's spec has it; 0: it has none.
func (s *Snapshot) limitOf(reason queue.Reason) *queue.Waiting {
	spec, w := &s.Queue.Spec, &queue.Waiting{Reason: reason}
	switch reason {
	case queue.QueueConcurrency:
		w.Limit = int(spec.Concurrency)
	case queue.TenantConcurrency:
		w.Limit = int(spec.Tenants.Concurrency)
		for _, o := range spec.Tenants.Overrides {
			if o.Name == s.Task.TenantName() {
				w.Limit = cmp.Or(int(o.Concurrency), w.Limit)
			}
		}
	case queue.RateLimited:
		w.Limit, w.Period = int(spec.Dispatch.Rate), time.Duration(cmp.Or(spec.Dispatch.PeriodSeconds, 1))*time.Second
	case queue.BreakerOpen, queue.QueuePaused, queue.Queued:
	}
	return w
}

// placeUnder names the limit, and the task's place but for its number.
func (s *Snapshot) placeUnder(w *queue.Waiting) string {
	return fmt.Sprintf("TaskQueue %s: %s; the task is among the next ", s.Task.Spec.QueueName, s.nameOf(w))
}

// nameOf names the limit.
func (s *Snapshot) nameOf(w *queue.Waiting) string {
	switch w.Reason {
	case queue.QueueConcurrency:
		return fmt.Sprintf("its concurrency of %d is used up", w.Limit)
	case queue.TenantConcurrency:
		return fmt.Sprintf("the concurrency of %d of tenant %s is used up", w.Limit, s.Task.TenantName())
	case queue.RateLimited:
		return fmt.Sprintf("it starts %d in %s", w.Limit, w.Period)
	case queue.BreakerOpen:
		return "its breaker is open"
	case queue.QueuePaused, queue.Queued:
	}
	return string(w.Reason)
}

// roughly is the least power of two that is not below n. Of a task that only moves forward it changes as often as its place halves.
func roughly(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// byWhom names some of those that hold the capacity; empty: none is short.
func byWhom(w *queue.Waiting) string {
	if len(w.Holders) == 0 || w.Reason != queue.QueueConcurrency && w.Reason != queue.TenantConcurrency {
		return ""
	}
	others := ""
	if n := w.HeldBy - len(w.Holders); n > 0 {
		others = fmt.Sprintf(", and %d more", n)
	}
	return "; held by LeasedTask " + strings.Join(w.Holders, ", ") + others
}
