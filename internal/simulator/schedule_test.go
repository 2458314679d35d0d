package simulator

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// event is something that may happen at any time. Between two of them time passes, and everybody does his work.
type event struct {
	name   string
	weight int
	happen func(*world)
}

// events are all there are, the harmless ones first: rapid prefers the front, and shrinks towards it.
var events = []event{
	{"nothing", 6, func(*world) {}},
	{"child succeeds", 2, func(w *world) { w.child(func(p *process) { p.tree.hurry(0, 0) }) }},
	{"child fails", 2, func(w *world) { w.child(func(p *process) { p.tree.hurry(0, 1) }) }},
	{"pass", 3, func(w *world) { w.controller(func(c *controller) { c.isDirty = true }) }},
	{"fair weather", 2, (*world).recover},
	{"heal", 2, func(w *world) { w.eachBox((*box).heal) }},
	{"thaw node", 2, func(w *world) { w.eachBox((*box).thaw) }},
	{"thaw controllers", 4, func(w *world) { w.eachController((*controller).thaw) }},
	{"watches go on", 3, func(w *world) { w.eachController((*controller).catchUp) }},

	{"crash soon", 4, func(w *world) {
		w.controller(func(c *controller) { c.trap = trap{isSet: true, steps: w.random.IntN(20)} })
	}},
	{"freeze soon", 6, func(w *world) {
		w.controller(func(c *controller) { c.trap = trap{isSet: true, steps: w.random.IntN(20), isFreezes: true} })
	}},
	{"crash", 1, func(w *world) { w.controller((*controller).crash) }},
	{"freeze controller", 2, func(w *world) { w.controller((*controller).freeze) }},
	{"another leads", 3, func(w *world) { w.controller((*controller).replace) }},
	{"slow watches", 3, func(w *world) { w.controller((*controller).slow) }},
	{"stalled watch", 5, func(w *world) { w.controller((*controller).stall) }},
	{"controller cut off", 3, func(w *world) { w.controller(func(c *controller) { c.isCut = true }) }},
	{"slow controller", 2, func(w *world) { w.controller(func(c *controller) { c.isSlow = true }) }},
	{"set controller's clock", 1, func(w *world) {
		w.controller(func(c *controller) { c.clock.step += w.step() })
	}},

	{"outage", 2, (*world).goDown},
	{"lossy", 4, func(w *world) { w.weather.isLossy = true }},
	{"old request", 3, func(w *world) { w.network.repeat() }},
	{"slow", 2, func(w *world) { w.weather.isSlow = true }},
	{"no worker role", 1, func(w *world) { w.weather.isForbidden = true }},
	{"no grants", 1, (*world).forbidGrants},
	{"epoch", 1, whileUp((*world).loseEpoch)},
	{"raise epoch", 1, whileUp((*world).raiseEpoch)},
	{"Pods refused", 2, (*world).refusePods},
	{"suspend", 1, whileUp(func(w *world) {
		w.api.editSpec(func(s *v1alpha1.LeasedTaskSpec) { s.Suspend = new(!s.IsSuspended()) })
	})},
	{"misspell", 1, whileUp((*world).misspell)},
	{"cancel", 1, whileUp(func(w *world) { w.api.editSpec(func(s *v1alpha1.LeasedTaskSpec) { s.Cancel.Reason = "enough" }) })},
	{"no dead letters", 1, func(w *world) { w.weather.full = "exceeded quota" }},
	{"backup", 2, func(w *world) { w.api.takeBackup() }},
	{"restore", 1, func(w *world) { w.api.restore() }},
	{"delete Lease", 1, whileUp(func(w *world) { w.api.loseLease() })},

	{"die", 3, func(w *world) { w.process(func(p *process) { p.kill() }) }},
	{"freeze node", 3, func(w *world) { w.box(func(b *box) { b.freeze(false) }) }},
	{"pause node", 2, func(w *world) { w.box(func(b *box) { b.freeze(true) }) }},
	{"set worker's clock", 2, func(w *world) {
		w.box(func(b *box) { b.node.clock.step += w.step() })
	}},
	{"cut off", 5, func(w *world) { w.box(func(b *box) { b.cut(true, true) }) }},
	{"requests lost", 2, func(w *world) { w.box(func(b *box) { b.cut(true, false) }) }},
	{"answers lost", 3, func(w *world) { w.box(func(b *box) { b.cut(false, true) }) }},
	{"restart", 4, func(w *world) { w.box((*box).restart) }},
	{"evict", 1, func(w *world) { w.box((*box).evict) }},
	{"collect Pod", 4, whileUp(func(w *world) { w.box((*box).collect) })},
	{"delete Pod", 2, whileUp(func(w *world) { w.box(func(b *box) { w.note("somebody deletes %s", b.name); w.api.deletePod(b.uid) }) })},
	{"lose Pod", 2, whileUp(func(w *world) { w.box(func(b *box) { w.note("%s is gone", b.name); w.api.editPod(b.uid, nil) }) })},
	{"make Pod anew", 2, whileUp(func(w *world) { w.box((*box).makeAnew) })},
}

// pauses are the times between two events.
var pauses = []time.Duration{0, 300 * time.Millisecond, time.Second, 50 * time.Millisecond, 2 * time.Second, 5 * time.Second, 3 * time.Second, 11 * time.Second, 35 * time.Second}

// swarm draws the events of one schedule: few kinds, so that those meet often. What none but they can bring about comes up
// in other schedules.
func swarm(t *rapid.T, random interface{ IntN(int) int }) *rapid.Generator[int] {
	var drawn []int
	chance := rapid.IntRange(1, 4).Draw(t, "kinds of faults")
	for i, e := range events {
		isHarmless := i < 9
		if isHarmless || random.IntN(5) < chance {
			drawn = append(drawn, slices.Repeat([]int{i}, e.weight)...)
		}
	}
	return rapid.SampledFrom(drawn)
}

// live lets the task live through a schedule.
func (w *world) live() {
	drawn := swarm(w.T, w.random)
	for range rapid.IntRange(20, 100).Draw(w.T, "events") {
		if w.isOver() && w.api.backup == nil {
			return
		}
		e := events[drawn.Draw(w.T, "event")]
		w.note("- %s", e.name)
		e.happen(w)
		w.advance(rapid.SampledFrom(pauses).Draw(w.T, "pause"))
	}
}

// isOver reports whether nothing is left to happen, unless a restore brings it back.
func (w *world) isOver() bool {
	return w.api.task.live().Status.Phase.IsFinished() && !slices.ContainsFunc(w.processes, func(p *process) bool { return p.stage != ended })
}

// whileUp makes an event of something that takes an API server which answers.
func whileUp(happen func(*world)) func(*world) {
	return func(w *world) {
		if !w.weather.isDown {
			happen(w)
		}
	}
}

// child lets something happen to a process that has one.
func (w *world) child(happen func(*process)) {
	w.some(func(p *process) bool { return p.tree.isUp }, happen)
}

// process lets something happen to a process.
func (w *world) process(happen func(*process)) {
	w.some(func(p *process) bool { return p.stage != ended && !p.node.isFrozen }, happen)
}

func (w *world) some(isAble func(*process) bool, happen func(*process)) {
	var able []*process
	for _, p := range w.processes {
		if isAble(p) {
			able = append(able, p)
		}
	}
	if len(able) > 0 {
		happen(able[w.random.IntN(len(able))])
	}
}

// box lets something happen to a Pod or its node, mostly the latest.
func (w *world) box(happen func(*box)) {
	var able []*box
	for _, b := range w.boxes {
		if !b.isGone {
			able = append(able, b)
		}
	}
	switch n := len(able); {
	case n == 0:
	case w.oneIn(4):
		happen(able[w.random.IntN(n)])
	default:
		happen(able[n-1])
	}
}

func (w *world) eachBox(happen func(*box)) {
	for _, b := range w.boxes {
		happen(b)
	}
}

// controller lets something happen to a controller, mostly one that leads.
func (w *world) controller(happen func(*controller)) {
	c := w.controllers[w.random.IntN(2)]
	if !c.leads && !w.oneIn(4) {
		c = c.other()
	}
	happen(c)
}

func (w *world) eachController(happen func(*controller)) {
	for _, c := range w.controllers {
		happen(c)
	}
}

func (c *controller) cursors() []*cursor { return []*cursor{&c.task, &c.term, &c.pods} }

func (c *controller) slow() {
	lags := []time.Duration{0, 100 * time.Millisecond, time.Second, 4 * time.Second, 20 * time.Second}
	c.cursors()[c.random.IntN(3)].lag = lags[c.random.IntN(len(lags))]
}

func (c *controller) stall() { c.cursors()[c.random.IntN(3)].isStalled = true }

// catchUp ends all stalls: version by version, or by a new list that skips those in between.
func (c *controller) catchUp() {
	c.isCut, c.isSlow = false, false
	for _, cursor := range c.cursors() {
		cursor.isStalled, cursor.lag = false, min(cursor.lag, 100*time.Millisecond)
	}
	if c.oneIn(2) && !c.weather.isDown && !c.isFrozen {
		c.relist()
	}
}

func (w *world) goDown() {
	if !w.weather.isDown {
		w.weather.isDown, w.ledger.downSince = true, w.now
	}
}

// step is by how much somebody sets a clock.
func (w *world) step() time.Duration {
	furthest := []time.Duration{time.Minute, 5 * time.Minute, 3 * time.Hour}[w.random.IntN(3)]
	return w.upTo(-furthest, furthest)
}

// recover is fair weather, the API server's return with it.
func (w *world) recover() {
	if w.weather.isDown && w.now-w.ledger.downSince > blindAfter+2*sightPeriod {
		w.ledger.blindSince, w.ledger.answeredAt = w.ledger.downSince, w.now
	}
	w.weather = weather{}
	if w.api.epoch == 0 {
		w.api.epoch = w.api.epochBefore
	}
	w.eachBox(func(b *box) { b.wakeIn(w.upTo(0, time.Second)) })
}

func (w *world) forbidGrants() {
	w.weather.problem = &plan.GrantProblem{Reason: v1alpha1.WaitingWorkerRole, Message: "the worker role cannot be bound"}
}

func (w *world) loseEpoch() {
	if w.api.epoch > 0 {
		w.api.epochBefore, w.api.epoch = w.api.epoch, 0
	}
}

func (w *world) raiseEpoch() {
	if w.api.epoch > 0 {
		w.api.epoch++
	}
}

func (w *world) refusePods() {
	refusals := []plan.PodRefusal{
		{Kind: plan.RefusedQuota, Message: "exceeded quota"},
		{Kind: plan.RefusedPolicy, Message: "violates PodSecurity"},
		{Kind: plan.RefusedError, Message: "a webhook failed"},
		{Kind: plan.RefusedInvalid, Message: "no valid Pod"},
		{Kind: plan.RefusedTaken, Message: "taken"},
	}
	w.weather.refusal = &refusals[w.random.IntN(len(refusals))]
}

func (a *apiServer) loseLease() {
	if a.term.live() != nil {
		a.note("somebody deletes the Lease")
		a.deleteLease()
	}
}

// makeAnew replaces a Pod by another of its name, as people do by hand: a copy that claims to be the attempt's, or one of
// their own.
func (b *box) makeAnew() {
	old := b.api.pod(b.uid)
	if old == nil {
		return
	}
	b.note("somebody makes %s anew", b.name)
	b.api.editPod(b.uid, nil)
	again := &corev1.Pod{ObjectMeta: *old.ObjectMeta.DeepCopy()}
	again.DeletionTimestamp = nil
	if b.oneIn(3) {
		delete(again.Annotations, v1alpha1.TokenAnnotation)
	}
	b.api.createPod(again)
}

// misspell writes a condition on the result that does not compile, and repairs it the next time; only before the first grant, after
// which the API server lets nobody, nor once the task was given up.
func (w *world) misspell() {
	task := w.api.task.live()
	if task.Status.FencingToken != 0 || task.Status.DeadLetterName != "" || w.api.term.live() != nil {
		return
	}
	w.api.editSpec(func(s *v1alpha1.LeasedTaskSpec) {
		if s.Verify != nil {
			s.Verify = nil
			return
		}
		s.Verify = []v1alpha1.ResultCheck{{Expression: "rows == 3"}}
	})
}

// settle lets the faults stop and the task finish, and all that was started end.
func (w *world) settle() {
	w.note("the faults stop")
	w.recover()
	w.isSettling = true
	isGivenUp := w.api.task.live().Status.DeadLetterName != "" // then its spec stays
	w.api.editSpec(func(s *v1alpha1.LeasedTaskSpec) {
		if s.Suspend = nil; !isGivenUp {
			s.Verify = nil
		}
	})
	w.eachBox((*box).thaw)
	w.eachBox((*box).heal)
	for _, b := range w.boxes {
		if len(b.processes) == 0 && b.startsAt != never && b.oneIn(2) {
			b.startsAt = min(b.startsAt, w.now+time.Minute)
			b.wakeIn(0)
		}
	}
	for _, p := range w.processes {
		p.tree.hurry(2*time.Second, 0)
	}
	w.eachController((*controller).thaw)
	w.eachController((*controller).catchUp)
	w.eachController(func(c *controller) { c.trap = trap{} })
	if !w.controllers[0].leads && !w.controllers[1].leads {
		w.controllers[0].elect()
	}
	w.until("the task is finished", 30*time.Minute, func() bool { return w.api.task.live().Status.Phase.IsFinished() })
	w.checkEnd()
	w.until("nothing runs", 10*time.Minute, w.isOver)
	w.checkEnd()
}

// until lets time pass until something has come about.
func (w *world) until(what string, bound time.Duration, hasCome func() bool) {
	for end := w.now + bound; !hasCome(); {
		if w.now > end {
			w.fail("not %s within %s: %s", what, bound, w.summary())
		}
		w.advance(500 * time.Millisecond)
	}
}

func (w *world) summary() string {
	status := &w.api.task.live().Status
	return fmt.Sprintf("the task is %s, attempt %d", status.Phase, status.Attempt)
}
