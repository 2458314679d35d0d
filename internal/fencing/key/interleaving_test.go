package key_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

const (
	duration = 10 * time.Second
	fenced   = duration - time.Second // a process is dead so long after its term has gone
)

// job is a task that wants the key.
type job struct {
	me        key.Claimant
	phase     string // waiting, running, stopped, submitted, Completed, DeadLettered, Cancelled
	isGone    bool
	hasTerm   bool
	version   int // of term
	process   bool
	isClaimed bool      // the term; once
	doneAt    time.Time // of its term, once gone
	answered  string    // the task that did the work, once Completed
	isTold    bool      // to stop
}

func (j *job) isFinished() bool {
	return j.phase == "Completed" || j.phase == "DeadLettered" || j.phase == "Cancelled"
}

// message is a write under way: it was decided on what was seen then, and may arrive late, or never.
type message struct {
	what  string
	apply func() bool
}

// keys is a namespace with one key, the tasks that want it, the controllers that work on them, and the keeper. A controller may
// crash at any moment: then its message never arrives. It may freeze: then it arrives late.
type keys struct {
	kind    key.Kind
	lock    *key.Lock
	version int
	jobs    []*job
	letters map[string]bool
	now     time.Time
	flight  []message
	// asked is the newest that has asked for the key.
	asked *job
	// since is the keeper's memory; a crash empties it.
	since map[string]time.Time
	// problem is what a write broke.
	problem string
}

func (w *keys) job(uid string) *job {
	for _, j := range w.jobs {
		if j.me.UID == uid {
			return j
		}
	}
	return nil
}

// write is a compare-and-swap on the key Lease: create, update, or with nil delete.
func (w *keys) write(seen, next *key.Lock) bool {
	if (seen == nil) != (w.lock == nil) || (seen != nil && (seen.UID != w.lock.UID || seen.ResourceVersion != w.lock.ResourceVersion)) {
		return false
	}
	w.version++
	if next == nil {
		w.lock = nil
		return true
	}
	stored := next.Lease("ns") // through its encoding, as at the API server
	stored.ResourceVersion = strconv.Itoa(w.version)
	if stored.UID = types.UID("lease-" + stored.ResourceVersion); seen != nil {
		stored.UID = types.UID(seen.UID)
	}
	w.lock = key.Read(stored)
	if w.lock.Newest != nil {
		w.asked = w.job(w.lock.Newest.UID)
	}
	return true
}

// isNewer is the order of creation.
func isNewer(a, b *job) bool {
	if !a.me.Created.Equal(b.me.Created) {
		return a.me.Created.After(b.me.Created)
	}
	return a.me.Name > b.me.Name
}

func (j *job) isReplacing() bool { return j.me.Policy == key.PolicyReplace && j.me.Replays == "" }

func (w *keys) send(what string, apply func() bool) {
	if len(w.flight) < 8 {
		w.flight = append(w.flight, message{what, apply})
	}
}

// pass is a controller's look at a task.
func (w *keys) pass(j *job) {
	seen := w.lock
	switch {
	case j.isGone || j.isFinished():
	case j.phase == "submitted":
		w.record(j, seen)
	case j.phase == "running":
		w.stop(j, seen)
	case j.phase == "stopped":
		w.send("settle", func() bool {
			if seen != nil && seen.Supersedes(&j.me) {
				return w.yield(j)
			}
			j.phase, j.hasTerm, j.isTold = "waiting", false, false
			return true
		})
	case j.phase == "waiting":
		switch verdict := key.Judge(seen, &j.me, w.now); verdict {
		case key.Free, key.Expired, key.Inherited:
			next := key.Take(seen, w.kind, "k", &j.me, w.now)
			w.send("take", func() bool {
				if !w.write(seen, next) {
					return false
				}
				if a := w.asked; a != nil && a != j && a.phase == "waiting" && !a.isGone && verdict != key.Inherited && isNewer(a, j) {
					w.problem = fmt.Sprintf("%s takes the key, and %s, which is newer, has asked for it", j.me.UID, a.me.UID)
				}
				return true
			})
		case key.Replaceable:
			next := key.Ask(seen, &j.me)
			w.send("ask", func() bool { return w.write(seen, next) })
		case key.Superseded:
			w.send("yield", func() bool { return w.yield(j) })
		case key.Rejected:
			w.send("reject", func() bool { return w.die(j) })
		case key.Mine:
			w.send("grant", func() bool {
				if j.isGone || j.phase != "waiting" {
					return false
				}
				if j.me.Policy == key.PolicyReject { // it has begun
					j.me.Policy = key.PolicyQueue
				}
				j.phase, j.hasTerm, j.isClaimed = "running", true, false // somebody may claim, as long as the term stands
				return true
			})
		case key.Finished:
			w.send("attach", func() bool { return w.finish(j, "Completed", seen.Answer.TaskUID) })
		case key.Conflict:
			w.send("conflict", func() bool { return w.die(j) })
		case key.Busy, key.Blocked:
		}
	}
}

// stop ends the term of a holder that is superseded, if nobody has claimed, and tells whoever has.
func (w *keys) stop(j *job, seen *key.Lock) {
	switch {
	case seen == nil || seen.Holder != j.me.UID || !seen.Supersedes(&j.me):
	case j.hasTerm && !j.isClaimed:
		w.send("revoke", func() bool { return !j.isClaimed && w.yield(j) })
	case j.process:
		w.send("tell", func() bool {
			j.isTold = true
			return true
		})
	}
}

// yield is the end of a superseded task.
func (w *keys) yield(j *job) bool {
	if !slices.ContainsFunc(w.jobs, func(other *job) bool { return other.isReplacing() && isNewer(other, j) }) {
		w.problem = j.me.UID + " is superseded, and no newer task replaces it"
	}
	return w.finish(j, "Cancelled", "")
}

// record is what follows a success: the answer, then the status.
func (w *keys) record(j *job, seen *key.Lock) {
	complete := func() bool { return w.finish(j, "Completed", j.me.UID) }
	verdict := key.Judge(seen, &j.me, w.now)
	if w.kind == key.Concurrency || verdict == key.Finished && seen.Answer.TaskUID == j.me.UID || !verdict.IsTakable() && verdict != key.Mine {
		w.send("complete", complete)
		return
	}
	answer := &key.Answer{Task: j.me.Name, TaskUID: j.me.UID, Hash: j.me.Hash, Time: metav1.NewTime(w.now), RetentionSeconds: 60}
	next := key.Record(seen, "k", &j.me, answer)
	w.send("record", func() bool {
		if !w.write(seen, next) {
			return false
		}
		w.send("complete", complete) // or a crash
		return true
	})
}

func (w *keys) finish(j *job, phase, by string) bool {
	if j.isGone || j.isFinished() || j.process {
		return false
	}
	j.phase, j.answered, j.hasTerm = phase, by, false
	return true
}

// die ends a task with a dead letter, which comes first.
func (w *keys) die(j *job) bool {
	if j.isGone || j.isFinished() || j.process {
		return false
	}
	w.letters[letterOf(j)] = true
	return w.finish(j, "DeadLettered", "")
}

// keep is a pass of the keeper.
func (w *keys) keep() {
	l := w.lock
	if l == nil {
		return
	}
	seen := &key.Seen{Task: key.TaskGone}
	for _, letter := range l.Letters("dl-" + l.HolderUID) {
		if w.letters[letter] {
			seen.Letters = append(seen.Letters, letter)
		}
	}
	version := 0
	if l.Newest != nil && l.Newest.UID != l.HolderUID {
		seen.Next = stateOf(w.job(l.Newest.UID))
	}
	if j := w.job(l.HolderUID); j != nil {
		seen.Task = stateOf(j)
		if j.isGone {
			seen.HasTerm, version = j.hasTerm, j.version
			mark := fmt.Sprint(l.ResourceVersion, j.hasTerm, j.version)
			if _, ok := w.since[mark]; !ok {
				w.since[mark] = w.now
			}
			seen.Since = w.since[mark]
		}
	}
	switch key.Keep(l, seen, w.now).Action {
	case key.Leave:
	case key.Delete:
		w.send("delete", func() bool { return w.write(l, nil) })
	case key.BlockIt:
		next := key.Block(l, seen.Letters)
		w.send("block", func() bool { return w.write(l, next) })
	case key.PromiseIt:
		next := key.Promise(l)
		w.send("promise", func() bool { return w.write(l, next) })
	case key.EndTerm:
		w.send("end term", func() bool {
			j := w.job(l.HolderUID)
			if !j.hasTerm || j.version != version {
				return false
			}
			j.hasTerm, j.doneAt = false, w.now
			return true
		})
	}
}

func stateOf(j *job) key.TaskState {
	switch {
	case j.isGone:
		return key.TaskGone
	case j.phase == "Completed":
		return key.TaskCompleted
	case j.isFinished():
		return key.TaskEnded
	}
	return key.TaskUnfinished
}

// advance lets time pass: a process whose term is gone fences itself in time, one whose term stands renews.
func (w *keys) advance(d time.Duration) {
	for range d / time.Second {
		w.now = w.now.Add(time.Second)
		for _, j := range w.jobs {
			switch {
			case j.process && !j.hasTerm && w.now.Sub(j.doneAt) >= fenced:
				j.process = false
			case j.process && j.hasTerm:
				j.version++
			}
		}
	}
}

// check is what must hold whatever the order was.
func (w *keys) check(t *rapid.T) {
	var running []string
	for _, j := range w.jobs {
		if j.process {
			running = append(running, j.me.UID)
		}
		if j.answered != "" && w.job(j.answered).me.Hash != j.me.Hash {
			t.Fatalf("%s is Completed with the answer of %s, to another payload", j.me.UID, j.answered)
		}
	}
	if w.problem != "" {
		t.Fatal(w.problem)
	}
	if len(running) > 1 {
		t.Fatalf("%v run at the same time", running)
	}
}

func (w *keys) pick(t *rapid.T, what string, is func(*job) bool) *job {
	var found []*job
	for _, j := range w.jobs {
		if is(j) {
			found = append(found, j)
		}
	}
	if len(found) == 0 {
		t.Skip("there is none")
	}
	return found[rapid.IntRange(0, len(found)-1).Draw(t, what)]
}

func (w *keys) create(t *rapid.T) {
	if len(w.jobs) >= 7 {
		t.Skip("enough")
	}
	uid := fmt.Sprintf("uid-%d", len(w.jobs))
	me := key.Claimant{UID: uid, Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name") + uid, Duration: duration, BlocksWhenDead: rapid.Bool().Draw(t, "blocks"),
		Created: start.Add(time.Duration(len(w.jobs)/2) * time.Second)} // two within each second
	me.Policy = rapid.SampledFrom([]key.Policy{key.PolicyQueue, key.PolicyReplace, key.PolicyReplace, key.PolicyReject}).Draw(t, "policy")
	if w.kind == key.Idempotency {
		me.Hash = rapid.SampledFrom([]string{"same", "same", "same", "other"}).Draw(t, "payload")
	}
	var letters []string
	for letter := range w.letters {
		letters = append(letters, letter)
	}
	if slices.Sort(letters); len(letters) > 0 && rapid.Bool().Draw(t, "is a replay") {
		me.Replays = rapid.SampledFrom(letters).Draw(t, "of")
	}
	w.jobs = append(w.jobs, &job{me: me, phase: "waiting"})
}

func (w *keys) actions() map[string]func(*rapid.T) {
	look := func(t *rapid.T) { w.pass(w.pick(t, "task", func(j *job) bool { return !j.isGone })) }
	work := func(t *rapid.T) {
		j := w.pick(t, "task", func(j *job) bool { return !j.isGone })
		w.inTime(func() { w.pass(j) })
	}
	arrive := func(t *rapid.T) {
		if len(w.flight) == 0 {
			t.Skip("nothing is under way")
		}
		i := rapid.IntRange(0, len(w.flight)-1).Draw(t, "message")
		m := w.flight[i]
		w.flight = slices.Delete(w.flight, i, i+1)
		m.apply()
	}
	return map[string]func(*rapid.T){
		"":       w.check,
		"create": w.create,
		"look":   look,
		"arrive": arrive, "arrive 2": arrive,
		"work": work, "work 2": work, "work 3": work,
		"keep":  func(*rapid.T) { w.keep() },
		"kept":  func(*rapid.T) { w.inTime(w.keep) },
		"crash": func(*rapid.T) { w.flight, w.since = nil, map[string]time.Time{} },
		"time": func(t *rapid.T) {
			w.advance(time.Duration(rapid.SampledFrom([]int{1, 5, 11, 70}).Draw(t, "seconds")) * time.Second)
		},
		"succeeds": func(t *rapid.T) {
			j := w.pick(t, "task", func(j *job) bool { return j.process && j.hasTerm && !j.isGone })
			j.process, j.phase = false, "submitted"
		},
		"fails": func(t *rapid.T) {
			j := w.pick(t, "task", func(j *job) bool { return j.process && j.hasTerm && !j.isGone })
			j.process = false
			if rapid.Bool().Draw(t, "for good") {
				w.die(j)
			} else {
				j.phase, j.hasTerm = "waiting", false
			}
		},
		"heeds": func(t *rapid.T) {
			j := w.pick(t, "task", func(j *job) bool { return j.process && j.hasTerm && j.isTold && !j.isGone })
			j.process, j.phase = false, "stopped"
		},
		"claim": func(t *rapid.T) {
			w.claim(w.pick(t, "task", func(j *job) bool { return j.hasTerm && !j.isClaimed }))
		},
		"cancel": func(t *rapid.T) {
			w.finish(w.pick(t, "task", func(j *job) bool { return !j.isGone && !j.isFinished() && !j.process }), "Cancelled", "")
		},
		"delete": func(t *rapid.T) { w.pick(t, "task", func(j *job) bool { return !j.isGone }).isGone = true },
		"collect": func(t *rapid.T) { // the garbage collector
			j := w.pick(t, "task", func(j *job) bool { return j.isGone && j.hasTerm })
			j.hasTerm, j.doneAt = false, w.now
		},
		"discard": func(t *rapid.T) {
			delete(w.letters, letterOf(w.pick(t, "task", func(j *job) bool { return w.letters[letterOf(j)] })))
		},
	}
}

// claim is a Pod's, also of a task that is gone.
func (w *keys) claim(j *job) {
	if j.hasTerm && !j.isClaimed {
		j.process, j.isClaimed, j.version = true, true, j.version+1
	}
}

func letterOf(j *job) string { return "dl-" + j.me.UID }

// settle plays on, without further mischief, until nothing moves.
func (w *keys) settle(t *rapid.T) {
	for range 60 {
		w.check(t)
		for _, j := range w.jobs {
			if !j.isGone {
				w.claim(j)
			}
			if w.check(t); j.process && j.hasTerm && !j.isGone {
				j.process, j.phase = false, "submitted"
			}
			w.pass(j)
			w.deliver()
			w.check(t)
		}
		w.keep()
		w.deliver()
		w.advance(4 * time.Second)
	}
}

// inTime makes a pass whose writes arrive at once, as nearly all do.
func (w *keys) inTime(pass func()) {
	late := w.flight
	w.flight = nil
	pass()
	w.deliver()
	w.flight = late
}

func (w *keys) deliver() {
	for len(w.flight) > 0 {
		m := w.flight[0]
		w.flight = w.flight[1:]
		m.apply()
	}
}

// TestAnyInterleaving: in whatever order tasks of one key are made, cancelled, deleted, fail, succeed and are replayed, while
// controllers and keeper crash, freeze, and write late: no two run at the same time, nobody gets the answer to another payload,
// nobody is superseded but by a newer task that replaces what is older, nor takes the key before one that has asked for it; and in
// the end nobody waits but for a dead letter, and no key is left behind.
func TestAnyInterleaving(t *testing.T) {
	for i := range 40 { // of a hundred runs each, unless -rapid.checks says otherwise
		t.Run(strconv.Itoa(i), func(t *testing.T) { rapid.Check(t, play) })
	}
}

func play(t *rapid.T) {
	w := &keys{kind: rapid.SampledFrom([]key.Kind{key.Idempotency, key.Concurrency}).Draw(t, "kind"),
		letters: map[string]bool{}, now: start, since: map[string]time.Time{}}
	for range 3 {
		t.Repeat(w.actions())
	}
	for _, j := range w.jobs { // a process whose task is gone ends, some day
		if j.isGone {
			j.process = false
		}
	}
	w.settle(t)
	for _, j := range w.jobs {
		isHeir := w.lock != nil && slices.Contains(w.lock.BlockedBy, j.me.Replays)
		if !j.isGone && !j.isFinished() && (isHeir || key.Judge(w.lock, &j.me, w.now) != key.Blocked) {
			t.Fatalf("%s waits for ever: %s, lock %+v", j.me.UID, j.phase, w.lock)
		}
	}
	w.letters = map[string]bool{}
	w.settle(t)
	for _, j := range w.jobs {
		if !j.isGone && !j.isFinished() {
			t.Fatalf("%s waits for ever, without dead letters: %s, lock %+v", j.me.UID, j.phase, w.lock)
		}
	}
	w.letters = map[string]bool{}
	w.advance(2 * time.Minute)
	for range 5 {
		w.keep()
		w.deliver()
		w.advance(duration)
	}
	if w.lock != nil {
		t.Fatalf("left behind: %+v", w.lock)
	}
}
