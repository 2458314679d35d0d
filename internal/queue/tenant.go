package queue

import (
	"cmp"
	"slices"
)

// tenant is one tenant's share, and what it has of it.
type tenant struct {
	name    string
	share   Share
	holders []*member       // by name
	flows   map[int32]*flow // by priority: where it waits, or has a debt
}

func (q *Queue) tenant(name string) *tenant {
	t := q.tenants[name]
	if t == nil {
		t = &tenant{name: name, share: q.limits.share(name), flows: map[int32]*flow{}}
		q.tenants[name] = t
	}
	return t
}

// forget drops a tenant that has nothing left.
func (q *Queue) forget(t *tenant) {
	if len(t.holders) == 0 && len(t.flows) == 0 {
		delete(q.tenants, t.name)
	}
}

// share is what the limits give a tenant.
func (l Limits) share(tenant string) Share {
	own := l.Overrides[tenant]
	return Share{
		Concurrency: cmp.Or(own.Concurrency, l.Default.Concurrency),
		Weight:      max(1, cmp.Or(own.Weight, l.Default.Weight)),
	}
}

func (t *tenant) isFull() bool {
	return t.share.Concurrency > 0 && len(t.holders) >= t.share.Concurrency
}

// place is called after whatever may have made the tenant full, or no longer so.
func (t *tenant) place() {
	for _, f := range t.flows {
		f.place()
	}
}

func byName(a, b *member) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) }

func byAge(a, b *member) int { return cmp.Or(a.Created.Compare(b.Created), byName(a, b)) }

// insert puts a member into a sorted line. A line is a slice: to move 10,000 pointers takes microseconds, and a place in it is found
// by bisection.
func insert(line []*member, m *member, order func(a, b *member) int) []*member {
	i, _ := slices.BinarySearchFunc(line, m, order)
	return slices.Insert(line, i, m)
}

// without takes a member out of a sorted line.
func without(line []*member, m *member, order func(a, b *member) int) []*member {
	i, _ := slices.BinarySearchFunc(line, m, order)
	if i == 0 { // the usual case, the first, moves nothing
		line[0] = nil
		return line[1:]
	}
	return slices.Delete(line, i, i+1)
}
