package simulator

import (
	"iter"
	"time"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	sightPeriod = 2 * time.Second // as controller.Looker
	blindAfter  = 3 * sightPeriod // as controller.Sight
	unseen      = ""
)

// cursor is how far a cache has come with one kind.
type cursor struct {
	seen      int
	lag       time.Duration
	isStalled bool // the watch stands still
}

// next is when the next version is delivered; written tells when one was.
func (c *cursor) next(versions int, written func(int) time.Duration) time.Duration {
	if c.isStalled || c.seen+1 >= versions {
		return never
	}
	return written(c.seen+1) + c.lag
}

// controller is one replica of the operator: what controller.Reconciler, Observer, Sight and its caches are.
type controller struct {
	*world
	name  string
	clock clock

	leads     bool          // by its own account
	yieldsAt  time.Duration // when it learns that another leads
	startsAt  time.Duration // when its process runs, after a crash
	isFrozen  bool
	isCut     bool // it does not reach the API server
	isSlow    bool // its requests take long
	task      cursor
	term      cursor
	pods      cursor
	epochSeen int64

	// As Observer and Sight: on the monotonic clock.
	mark        string
	held        string
	since       time.Duration
	claim       string
	claimedAt   time.Duration
	ordered     string // the stop that the term bears
	orderedAt   time.Duration
	sightFloor  time.Duration
	sightLatest time.Duration // never: it has not seen yet
	lookAt      time.Duration // true time

	// The queue: an event asks for a pass, a pass asked to be repeated, the held term's timer. Monotonic.
	isDirty bool
	again   time.Duration
	judge   time.Duration
	errors  int // passes in a row that failed
	refused refusedPod

	pass *pass
	trap trap
}

// trap ends or freezes the process in its next pass, after so many steps.
type trap struct {
	isSet     bool
	steps     int
	isFreezes bool
}

type refusedPod struct {
	name    string
	at      time.Duration
	refusal *plan.PodRefusal
}

func (w *world) newController(name string, leads bool) *controller {
	c := &controller{world: w, name: name, clock: clock{perMille: 1000 + 20*w.random.Int64N(2)}}
	c.start(0)
	c.leads = leads
	c.trap = trap{isSet: w.oneIn(6), steps: w.random.IntN(20), isFreezes: true}
	return c
}

// start is a new process after a pause: its caches list anew, and a list may be a little old; it has observed nothing, and every
// task is worth a pass.
func (c *controller) start(pause time.Duration) {
	if c.pass != nil {
		c.pass.stop()
	}
	fresh := controller{world: c.world, name: c.name, clock: c.clock, yieldsAt: never, startsAt: c.now + pause, lookAt: c.now + pause,
		mark: unseen, sightLatest: never, isDirty: true, again: never, judge: never}
	lags := []time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second}
	for _, cursor := range []*cursor{&fresh.task, &fresh.term, &fresh.pods} {
		cursor.lag = lags[c.random.IntN(len(lags))]
	}
	fresh.list()
	*c = fresh
}

// list fills the caches.
func (c *controller) list() {
	recent := func(versions int) int { return max(0, versions-1-c.random.IntN(4)/2*c.random.IntN(3)) }
	c.task.seen, c.term.seen, c.pods.seen = recent(len(c.api.task)), recent(len(c.api.term)), recent(len(c.api.pods))
	if term := c.api.term[c.term.seen].value; term != nil {
		c.see(term, "")
	}
}

func (c *controller) mono() time.Duration { return c.clock.reading(c.now) }

func (c *controller) due() time.Duration {
	if c.isFrozen {
		return never
	}
	if c.now < c.startsAt {
		return c.startsAt
	}
	at := min(c.lookAt, c.yieldsAt, c.nextDelivery())
	switch {
	case c.pass != nil:
		at = min(at, c.pass.resumesAt)
	case c.leads && c.isDirty:
		at = c.now
	case c.leads:
		at = min(at, c.clock.when(min(c.again, c.judge)))
	}
	return at
}

func (c *controller) nextDelivery() time.Duration {
	if c.isCut || c.weather.isDown {
		return never
	}
	return min(
		c.task.next(len(c.api.task), func(i int) time.Duration { return c.api.task[i].at }),
		c.term.next(len(c.api.term), func(i int) time.Duration { return c.api.term[i].at }),
		c.pods.next(len(c.api.pods), func(i int) time.Duration { return c.api.pods[i].at }))
}

func (c *controller) act() {
	switch {
	case c.now >= c.yieldsAt:
		c.yield()
	case c.now >= c.lookAt:
		c.look()
	case c.now >= c.nextDelivery():
		c.deliver()
	case c.pass != nil:
		c.goOn()
	default:
		c.takeUp()
		c.begin()
	}
}

// yield ends the process of a leader that learns that another leads.
func (c *controller) yield() {
	c.yieldsAt = never
	if c.other().leads {
		c.note("controller %s learns that another leads, and starts again", c.name)
		c.start(time.Second)
	}
}

// look keeps the sight open.
func (c *controller) look() {
	c.lookAt = c.now + c.clock.when(sightPeriod) - c.clock.stood
	if c.weather.isDown || c.isCut {
		return
	}
	if !c.isSeeing() {
		c.sightFloor = c.mono()
	}
	c.sightLatest = c.mono()
}

func (c *controller) isSeeing() bool {
	return c.sightLatest != never && c.mono()-c.sightLatest <= blindAfter
}

// deliver brings forward by one version each cache that is due.
func (c *controller) deliver() {
	if c.task.next(len(c.api.task), func(i int) time.Duration { return c.api.task[i].at }) <= c.now {
		c.task.seen++
		c.isDirty = true
	}
	if c.term.next(len(c.api.term), func(i int) time.Duration { return c.api.term[i].at }) <= c.now {
		c.deliverTerm(c.term.seen + 1)
	}
	if c.pods.next(len(c.api.pods), func(i int) time.Duration { return c.api.pods[i].at }) <= c.now {
		c.pods.seen++
		c.isDirty = true
	}
}

// deliverTerm brings the Lease forward to a version. What a renewal alone changed asks for no pass.
func (c *controller) deliverTerm(index int) {
	was, is := c.api.term[c.term.seen].value, c.api.term[index].value
	c.term.seen = index
	if is == nil {
		c.mark, c.judge = unseen, never
	} else {
		c.see(is, "")
	}
	if was == nil || is == nil || was.UID != is.UID || was.Attempt != is.Attempt || was.Holder != is.Holder || was.State() != is.State() {
		c.isDirty = true
	}
}

// relist brings a cache forward to the last version at once; the observer never sees those in between.
func (c *controller) relist() {
	c.task.seen, c.pods.seen = len(c.api.task)-1, len(c.api.pods)-1
	c.deliverTerm(len(c.api.term) - 1)
	c.isDirty = true
}

// see notes a record, or its absence, and says since when it has been seen as it is, by continuous sight.
func (c *controller) see(term *fencing.Term, absence string) time.Duration {
	mark := absence
	if term != nil {
		mark = term.Mark()
	}
	held := ""
	if term != nil && term.State() == fencing.Claimed {
		held = term.ResourceVersion
	}
	now := c.mono()
	claim := ""
	if term != nil && term.Claim != nil {
		claim = term.UID + term.Claim.String()
	}
	if claim != c.claim {
		c.claim, c.claimedAt = claim, now
	}
	ordered := ""
	if term != nil && term.Stop != nil {
		ordered = claim + term.Stop.String()
	}
	if ordered != c.ordered {
		c.ordered, c.orderedAt = ordered, now
	}
	isEndedUnseen := c.held != "" && term != nil && term.State() == fencing.Revoked && term.Ended != c.held
	if mark != c.mark || held != "" && held != c.held || isEndedUnseen {
		c.mark, c.since, c.judge = mark, now, never
		if term != nil && term.State() == fencing.Claimed {
			c.judge = now + term.Duration
		}
	}
	c.held = held
	return c.clip(c.since)
}

// clip is controller.Sight's.
func (c *controller) clip(since time.Duration) time.Duration {
	if !c.isSeeing() {
		return c.mono()
	}
	return max(since, c.sightFloor)
}

func (c *controller) requeue(d time.Duration) { c.again = min(c.again, c.mono()+d) }

// takeUp takes note that a pass comes.
func (c *controller) takeUp() {
	c.isDirty = false
	if c.again <= c.mono() {
		c.again = never
	}
	if c.judge <= c.mono() {
		c.judge = never
	}
}

// begin starts a pass. Each step takes it past one reading or write.
func (c *controller) begin() {
	p := &pass{controller: c, resumesAt: c.now}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.goesOn = func() bool { return yield(struct{}{}) }
		p.reconcile()
	})
	c.pass = p
}

// goOn takes the pass one step further.
func (c *controller) goOn() {
	if c.trap.isSet && c.trap.steps == 0 {
		c.trap.isSet = false
		if c.trap.isFreezes {
			c.freeze()
		} else {
			c.crash()
		}
		return
	}
	c.trap.steps--
	p := c.pass
	if _, more := p.next(); !more {
		c.pass = nil
		return
	}
	p.resumesAt = c.now + c.network.leg(c.isSlow)
}

func (c *controller) other() *controller {
	if c == c.controllers[0] {
		return c.controllers[1]
	}
	return c.controllers[0]
}

// crash ends the process. It comes back; who leads then is open.
func (c *controller) crash() {
	c.note("controller %s crashes", c.name)
	led := c.leads
	c.start(c.upTo(0, 5*time.Second))
	if led && !c.other().leads {
		c.elect()
	}
}

// elect makes one of the two the leader.
func (c *controller) elect() {
	leader := c
	if c.oneIn(2) {
		leader = c.other()
	}
	c.note("controller %s leads", leader.name)
	leader.leads, leader.isDirty = true, true
}

// freeze stops the process where it is. Another leads by and by.
func (c *controller) freeze() {
	c.note("controller %s freezes", c.name)
	c.isFrozen = true
	if c.leads && !c.oneIn(3) {
		c.note("controller %s leads", c.other().name)
		c.other().leads, c.other().isDirty = true, true
	}
}

// thaw lets it go on where it was. That it lost the lead, it learns a little later.
func (c *controller) thaw() {
	if !c.isFrozen {
		return
	}
	c.note("controller %s goes on", c.name)
	c.isFrozen = false
	if c.pass != nil {
		c.pass.resumesAt = max(c.pass.resumesAt, c.now)
	}
	if c.leads && c.other().leads {
		c.yieldsAt = c.now + c.upTo(0, 5*time.Second)
	}
}

// replace makes the other the leader, while this one does not know yet.
func (c *controller) replace() {
	if !c.leads || c.other().leads {
		return
	}
	c.note("controller %s leads in place of %s", c.other().name, c.name)
	c.other().leads, c.other().isDirty = true, true
	c.yieldsAt = c.now + c.upTo(0, 15*time.Second)
}
