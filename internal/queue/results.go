package queue

import "time"

// maxResults bounds what a window of results keeps: the newest ones. Their percentage is as good as that of all.
const maxResults = 10_000

// results is a sliding window of results. The zero value is empty.
type results struct {
	all      []result
	failures int
	same     map[string]int // failures by fingerprint
}

type result struct {
	at          time.Time
	isFailure   bool
	fingerprint string
}

// add takes a new one, and drops those that are as old as the window is long.
func (w *results) add(r result, window time.Duration) {
	w.all = append(w.all, r)
	w.count(r, +1)
	for len(w.all) > maxResults || !w.all[0].at.After(r.at.Add(-window)) {
		w.count(w.all[0], -1)
		w.all = w.all[1:]
	}
}

func (w *results) count(r result, n int) {
	if !r.isFailure {
		return
	}
	if w.same == nil {
		w.same = map[string]int{}
	}
	w.failures += n
	if w.same[r.fingerprint] += n; w.same[r.fingerprint] == 0 {
		delete(w.same, r.fingerprint)
	}
}
