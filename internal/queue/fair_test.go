package queue_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// TestFairnessBound is the theorem that the package documentation states: between two tenants that both wait, starts divided by weight
// differ by at most 1/wi + 1/wj over any time; while others come and go, at their limits, at other priorities, and with ageing.
func TestFairnessBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := map[string]int{"i": rapid.IntRange(1, 1000).Draw(t, "wi"), "j": rapid.IntRange(1, 1000).Draw(t, "wj")}
		now := epoch
		q := queue.New(queue.Limits{
			Concurrency: rapid.IntRange(1, 5).Draw(t, "concurrency"),
			Ageing:      rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "ageing"),
			Overrides:   map[string]queue.Share{"i": {Weight: weights["i"]}, "j": {Weight: weights["j"]}, "bulkhead": {Concurrency: 1, Weight: 1000}},
		}, now)
		tasks, running := map[string]queue.Task{}, []string(nil)
		join := func(tenant string, priority int32) {
			id := fmt.Sprintf("%05d", len(tasks))
			tasks[id] = queue.Task{ID: id, Name: id, Tenant: tenant, Priority: priority, Created: now}
			q.Join(tasks[id], now)
		}
		for range 6 { // more than can start at once: both always wait
			join("i", 0)
			join("j", 0)
		}
		share := map[string]float64{}
		least, most := 0.0, 0.0
		for _, other := range rapid.SliceOfN(rapid.IntRange(0, 9), 50, 400).Draw(t, "others") {
			now = now.Add(100 * time.Millisecond)
			switch other {
			case 0:
				join("other", 0)
			case 1:
				join("bulkhead", 0)
			case 2:
				join("other", 1)
			case 3:
				join("i", 1) // another level: another matter
			}
			admitted, _ := q.Dispatch(now)
			for _, id := range admitted {
				if task := tasks[id]; weights[task.Tenant] > 0 && task.Priority == 0 {
					share[task.Tenant] += 1 / float64(weights[task.Tenant])
					join(task.Tenant, 0)
				}
				d := share["i"] - share["j"]
				least, most = min(least, d), max(most, d)
			}
			if running = append(running, admitted...); len(running) > 0 {
				q.Leave(running[0])
				running = running[1:]
			}
		}
		if bound := 1/float64(weights["i"]) + 1/float64(weights["j"]); most-least > bound+1e-6 {
			t.Fatalf("weights %v: the shares moved apart by %v, the bound is %v", weights, most-least, bound)
		}
	})
}

// plant runs what a queue admits: at most its concurrency at a time, each for a time that depends on the tenant.
type plant struct {
	q       *queue.Queue
	now     time.Time
	tasks   map[string]queue.Task
	endings map[time.Time][]string
	starts  []queue.Task
}

func (p *plant) join(tenant string, priority int32) {
	id := fmt.Sprintf("%s-%06d", tenant, len(p.tasks))
	p.tasks[id] = queue.Task{ID: id, Name: id, Tenant: tenant, Priority: priority, Created: p.now}
	p.q.Join(p.tasks[id], p.now)
}

// tick is a second: what is over leaves, what may start does, for so long as length says.
func (p *plant) tick(length func(queue.Task) time.Duration) (started []queue.Task) {
	p.now = p.now.Add(time.Second)
	for _, id := range p.endings[p.now] {
		p.q.Leave(id)
	}
	admitted, _ := p.q.Dispatch(p.now)
	for _, id := range admitted {
		end := p.now.Add(length(p.tasks[id]))
		p.endings[end] = append(p.endings[end], id)
		started = append(started, p.tasks[id])
	}
	p.starts = append(p.starts, started...)
	return started
}

func newPlant(limits queue.Limits) *plant {
	return &plant{q: queue.New(limits, epoch), now: epoch, tasks: map[string]queue.Task{}, endings: map[time.Time][]string{}}
}

// TestFairnessSimulation: under backlog each tenant's share of starts is within 10 % of its weight, and so is the wait of each of its
// tasks. The tenants' tasks last differently long; one brings 10,000 at once, and its first ones are much older than those of the
// others; ageing is on. The figures are in the log: go test -run FairnessSimulation -v.
func TestFairnessSimulation(t *testing.T) {
	weights := map[string]int{"flood": 1, "slow": 1, "steady": 2, "quick": 3, "large": 5, "top": 8}
	limits := queue.Limits{Concurrency: 50, Ageing: time.Minute, Overrides: map[string]queue.Share{}}
	total := 0
	for tenant, w := range weights {
		limits.Overrides[tenant] = queue.Share{Weight: w}
		total += w
	}
	p, random := newPlant(limits), rand.New(rand.NewPCG(1, 2))
	length := func(task queue.Task) time.Duration {
		most := map[string]int{"slow": 120, "quick": 3}[task.Tenant]
		return time.Duration(1+random.IntN(max(most, 30))) * time.Second
	}
	for range 10_000 {
		p.join("flood", 0)
	}
	for range 600 {
		p.tick(length)
	}
	t.Logf("alone, the flood had %d starts in 600 s: nothing is kept free for tenants that do not wait", len(p.starts))

	p.starts = nil
	for _, tenant := range []string{"slow", "steady", "quick", "large", "top"} {
		for range 200 {
			p.join(tenant, 0)
		}
	}
	worstWait := 0.0
	count, before := map[string]int{}, map[string]int{} // starts, and those of the last thousand
	for len(p.starts) < 8_000 {
		n := len(p.starts)
		for i, task := range p.tick(length) {
			p.join(task.Tenant, 0)
			count[task.Tenant]++
			// The k-th start of a tenant is due after k*total/weight starts of all.
			due := float64(count[task.Tenant]*total) / float64(weights[task.Tenant])
			if off := math.Abs(float64(n+i+1)-due) / due; count[task.Tenant] > 20 {
				worstWait = max(worstWait, off)
			}
		}
		if n/1000 != len(p.starts)/1000 { // also in each thousand, not only in the end
			starts := sum(count) - sum(before)
			for tenant, w := range weights {
				checkShare(t, tenant, count[tenant]-before[tenant], starts, w, total)
			}
			before = maps.Clone(count)
		}
	}
	for tenant, w := range weights {
		share := checkShare(t, tenant, count[tenant], len(p.starts), w, total)
		t.Logf("%-6s weight %d of %d = %.4f: %4d of %d starts = %.4f, off by %.2f %%", tenant, w, total, float64(w)/float64(total), count[tenant], len(p.starts), share, 100*math.Abs(share*float64(total)/float64(w)-1))
	}
	t.Logf("the wait of a tenant's k-th task, k > 20, in starts of all: at most %.2f %% off k*total/weight", 100*worstWait)
	if worstWait > 0.10 {
		t.Errorf("a wait is off by %.1f %%", 100*worstWait)
	}
}

func checkShare(t *testing.T, tenant string, starts, of, weight, total int) float64 {
	t.Helper()
	share, want := float64(starts)/float64(of), float64(weight)/float64(total)
	if math.Abs(share/want-1) > 0.10 {
		t.Errorf("%s has %d of %d starts = %.4f, its weight is %.4f", tenant, starts, of, share, want)
	}
	return share
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestIdleTenantsGainNoCredit: who comes after ten minutes, or was at its limit for so long, gets its share from now on, not a burst.
func TestIdleTenantsGainNoCredit(t *testing.T) {
	for name, limited := range map[string]bool{"was idle": false, "was at its limit": true} {
		t.Run(name, func(t *testing.T) {
			limits := queue.Limits{Concurrency: 10, Overrides: map[string]queue.Share{"late": {Concurrency: 1}}}
			p := newPlant(limits)
			length := func(task queue.Task) time.Duration {
				if task.Tenant == "late" && p.now.Before(epoch.Add(10*time.Minute)) {
					return 10 * time.Minute
				}
				return time.Second
			}
			for range 7_000 {
				p.join("busy", 0)
			}
			if limited {
				for range 500 {
					p.join("late", 0)
				}
			}
			for range 600 {
				p.tick(length)
			}
			if !limited {
				for range 500 {
					p.join("late", 0)
				}
			}
			p.q.Limit(queue.Limits{Concurrency: 10}, p.now)
			p.starts = nil
			for range 20 {
				p.tick(length)
			}
			late := 0
			for _, task := range p.starts {
				if task.Tenant == "late" {
					late++
				}
			}
			if len(p.starts) < 190 || late < len(p.starts)*45/100 || late > len(p.starts)*55/100 {
				t.Errorf("late has %d of %d starts, want half", late, len(p.starts))
			}
		})
	}
}

// TestDebtSurvivesIdling: a tenant that leaves the line after each start, and comes back at once, gets no more than its share.
func TestDebtSurvivesIdling(t *testing.T) {
	p := newPlant(queue.Limits{Concurrency: 1, Overrides: map[string]queue.Share{"heavy": {Weight: 9}}})
	for range 300 {
		p.join("heavy", 0)
	}
	p.join("blinks", 0)
	count := map[string]int{}
	for range 200 {
		for _, task := range p.tick(func(queue.Task) time.Duration { return time.Second }) {
			if count[task.Tenant]++; task.Tenant == "blinks" {
				p.join("blinks", 0)
			}
		}
	}
	if count["blinks"] != 20 {
		t.Errorf("blinks has %d of 200 starts, its weight is 1 in 10", count["blinks"])
	}
}
