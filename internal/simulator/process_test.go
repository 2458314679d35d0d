package simulator

import (
	"fmt"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

const (
	stopGrace      = 2 * time.Second // of the task
	startTimeout   = time.Minute
	submitReserve  = 5 * time.Second // what a Pod's grace has beyond it
	claimPause     = 100 * time.Millisecond
	submitPause    = 250 * time.Millisecond
	maxSubmitPause = 15 * time.Second
)

// stage is how far a worker process has come.
type stage string

const (
	claiming   stage = "claiming"
	working    stage = "working"    // it holds the term, as far as it knows
	submitting stage = "submitting" // the tree is dead, the last word is on its way
	keeping    stage = "keeping"    // between two tries to submit it renews
	ended      stage = "ended"      // the process is gone
)

// process is agent.Agent: one process with one child. Its decisions are package holder's; what stands here is the loops around
// them.
type process struct {
	*world
	box     *box
	node    *node
	holder  string
	token   fencing.Token
	attempt int32
	claim   fencing.Claim
	timing  fencing.Timing
	stamps  holder.Stamps
	// isWallStill: its wall clock stands still.
	isWallStill bool
	// isRefusedResult: the API server takes no result of it, for a limit of its own.
	isRefusedResult bool
	// isLazy: it does not know how long its attempt may take.
	isLazy bool
	// isProbe: it is to find out whether an attempt had its effect.
	isProbe bool
	// hasTried: it has had its effect, or was kept out. isFrank: if it has not, it says so.
	hasTried, isFrank bool

	stage    stage
	wakesAt  holder.Boot
	claimant holder.Claimant
	term     *holder.Attempt
	isTold   bool // to stop, before the claim stood
	pause    time.Duration
	tree     tree

	isWaiting bool // for an answer
	request   int
	sentAt    holder.Boot
	sentTrue  time.Duration
	inbox     []func() // answers that came while it was frozen
	triedAt   holder.Boot

	word     *fencing.Submission
	isDead   bool // killed by somebody else
	report   string
	exitCode int32

	wasFrozen bool // it did not run, at some time since its last renewal
	thawedAt  time.Duration
	isOrphan  bool // a restore has undone its claim
	// isForbidden: its last request found no role.
	isForbidden bool
	// isForgotten: its kubelet has reported the end of another process in its place.
	isForgotten bool
}

func (b *box) newProcess() *process {
	nonce := fmt.Sprintf("%016x", b.random.Uint64())
	p := &process{world: b.world, box: b, node: b.node, holder: b.name, token: fencing.Token(b.token), attempt: b.attempt,
		claim: holder.ClaimOf(nonce, b.node.name, string(b.uid)), timing: fencing.TimingFor(duration),
		stage: claiming, claimant: holder.NewClaimant(), pause: claimPause, isRefusedResult: b.oneIn(40), isLazy: b.oneIn(6), isWallStill: b.oneIn(10),
		isProbe: b.isProbe, isFrank: b.oneIn(2)}
	p.tree = tree{process: p, exitsAt: never, diesAt: never, effectAt: never}
	p.wakesAt = p.boot()
	return p
}

func (p *process) boot() holder.Boot { return holder.Boot(p.node.clock.reading(p.now)) }

func (p *process) when(at holder.Boot) time.Duration { return p.node.clock.when(time.Duration(at)) }

func (p *process) jitter() float64 { return p.random.Float64() }

func (p *process) due() time.Duration {
	if p.stage == ended || p.node.isFrozen {
		return never
	}
	at := min(p.when(p.wakesAt), p.tree.due())
	if p.isWaiting {
		at = min(at, p.when(p.sentAt.Add(p.timing.RequestTimeout)))
	}
	return at
}

func (p *process) act() {
	if p.now >= p.tree.due() {
		p.tree.act()
		return
	}
	if now := p.boot(); p.isWaiting && now >= p.sentAt.Add(p.timing.RequestTimeout) {
		p.hear(reply{answer: fencing.Unavailable})
		return
	}
	p.wake()
}

// wake does what is due.
func (p *process) wake() {
	p.wakesAt = holder.Never
	switch p.stage {
	case claiming:
		p.sendClaim()
	case working:
		p.supervise()
	case submitting:
		if !p.term.KeepsSubmitting(p.boot()) {
			p.finish(fencing.DeliveryUnknown)
			return
		}
		p.triedAt = p.boot()
		p.send(fencing.SubmitPatch(p.holder, p.claim, []byte(encoded(*p.word))))
	case keeping, ended:
	}
}

// send makes one request. Its answer comes by itself, too late, or never.
func (p *process) send(patch []byte) {
	p.request++
	p.isWaiting, p.sentAt, p.sentTrue = true, p.boot(), p.now
	request := p.request
	p.network.carry(p.node, func() reply { return p.arrive(patch) }, func(r reply) {
		deliver := func() {
			if p.isWaiting && p.request == request && p.stage != ended {
				p.hear(r)
			}
		}
		if p.node.isFrozen {
			p.inbox = append(p.inbox, deliver)
		} else {
			deliver()
		}
	})
}

// arrive is a request at the API server.
func (p *process) arrive(patch []byte) reply {
	if p.isRefusedResult && p.word != nil && p.word.Result != nil {
		return reply{answer: fencing.Invalid}
	}
	answer := p.api.patchLease(patch, false)
	p.isForbidden = answer.isDenied
	return answer
}

// hear takes the answer to the last request.
func (p *process) hear(r reply) {
	p.isWaiting = false
	now := p.boot()
	switch p.stage {
	case claiming:
		p.hearClaim(r, now)
	case working:
		p.term.Hear(r.answer, r.isDenied, p.sentAt, now, p.jitter())
		if r.stop != nil {
			p.term.Order(*r.stop, now)
		}
		p.renewed(r)
		p.supervise()
	case submitting:
		p.hearSubmit(r)
	case keeping:
		if r.answer == fencing.Accepted {
			p.term.Trust.Succeed(p.sentAt, p.jitter())
		} else {
			p.term.Trust.Fail(p.sentAt, p.jitter())
		}
		p.renewed(r)
		p.rest()
	case ended:
	}
}

// renewed forgets a frozen time once a renewal was begun and accepted after it.
func (p *process) renewed(r reply) {
	if r.answer == fencing.Accepted && p.sentTrue >= p.thawedAt {
		p.wasFrozen = false
	}
}

// stamp is a renewTime. Of some nodes the wall clock stands still.
func (p *process) stamp() time.Time {
	if p.isWallStill {
		return p.stamps.Next(epochStart)
	}
	return p.stamps.Next(p.node.clock.wall(p.now))
}

func (p *process) sendClaim() {
	if p.claimant.Form() == holder.ClaimRepeat {
		p.send(fencing.RenewPatch(p.holder, p.claim, p.stamp()))
		return
	}
	p.send(fencing.ClaimPatch(p.holder, p.claim, p.stamp()))
}

func (p *process) hearClaim(r reply, now holder.Boot) {
	switch p.claimant.Hear(r.answer, r.isDenied, now) {
	case holder.ClaimHeld:
		trust := holder.NewTrust(p.timing, p.onFailure())
		trust.Succeed(p.sentAt, p.jitter())
		p.term, p.stage = holder.NewAttempt(trust, stopGrace), working
		if !p.isLazy {
			p.term.LimitTo(p.api.task.live().Spec.AttemptLimit())
		}
		if p.api.task.live().Spec.Heartbeat() == v1alpha1.HeartbeatApplication {
			p.term.RequireHeartbeats()
		}
		p.renewed(r)
		p.note("%s holds the term of attempt %d as %s", p.holder, p.attempt, p.claim)
		if r.stop != nil {
			p.term.Order(*r.stop, now)
		}
		if p.isTold {
			p.term.Stop(now)
		}
		p.supervise()
	case holder.ClaimLost:
		p.abandon(fencing.Fenced)
	case holder.ClaimOpen:
		if p.isTold && !p.claimant.MayStand() {
			p.abandon(fencing.Interrupted)
			return
		}
		p.wakesAt = p.sentAt.Add(holder.Spread(p.pause, 0.5, p.jitter()))
		p.pause = min(2*p.pause, p.timing.RequestTimeout)
	}
}

// onFailure is what the task wants of a worker that cannot renew.
func (p *process) onFailure() holder.OnRenewalFailure {
	return holder.OnRenewalFailure(p.api.task.live().Spec.OnRenewalFailure())
}

// abandon ends a process that holds nothing.
func (p *process) abandon(outcome fencing.Outcome) {
	p.note("%s ends without the term: %s", p.holder, outcome)
	p.checkAbandon(p)
	p.end(121, fencing.Report{Token: p.token, Outcome: outcome, Delivery: fencing.DeliveryNone})
}

// supervise does what is due while the child may live.
func (p *process) supervise() {
	a, now := p.term, p.boot()
	if p.tree.isUp && !p.tree.isSilent {
		a.Beat(now)
	}
	a.Check(now)
	if a.TermDue() {
		p.note("%s is fenced: %s", p.holder, a.Fenced())
		p.tree.terminate()
	}
	if a.StopDue() {
		why, _ := p.term.Why()
		p.note("%s is told to stop: %s", p.holder, why)
		p.tree.terminate()
	}
	if a.MayStart(now) {
		a.Started(nil)
		a.Beat(now)
		p.checkStart(p)
		p.tree.start()
	}
	if a.KillDue(now) {
		p.tree.kill()
	}
	if a.HasNoTree() || a.Exit() != nil && !p.tree.isAlive() {
		p.conclude()
		return
	}
	if a.IsLost(now) {
		p.note("%s cannot kill its tree in time", p.holder)
		p.tree.end()
		outcome := fencing.Failed
		switch {
		case a.Fenced() != "":
			outcome = fencing.Fenced
		case a.IsStopped():
			outcome = fencing.Interrupted
		}
		p.end(123, fencing.Report{Token: p.token, Outcome: outcome, Delivery: fencing.DeliveryUnknown})
		return
	}
	if a.RenewDue(now) && !p.isWaiting {
		p.send(fencing.RenewPatch(p.holder, p.claim, p.stamp()))
	}
	p.wakesAt = a.Wake(p.isWaiting)
}

// childEnded is the end of the command itself; what it started may live on.
func (p *process) childEnded(exit holder.Exit) {
	p.term.End(p.boot(), exit)
	p.supervise()
}

// conclude decides the outcome once the tree is dead, in the order of agent's ending.
func (p *process) conclude() {
	a := p.term
	p.stage, p.isWaiting, p.pause = submitting, false, submitPause
	p.word = &fencing.Submission{Token: p.token, Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit}
	switch {
	case a.LostWhileRunning() != "":
		p.word.Outcome, p.word.Reason = fencing.Fenced, fencing.ReasonRenewalFailed
	case a.IsHeartbeatMissed() && (a.Exit() == nil || a.Exit().Code != 0 || !p.tree.hasResult):
		p.word.Reason = fencing.ReasonHeartbeatMissed
	case a.IsOverdue() && (a.Exit() == nil || a.Exit().Code != 0 || !p.tree.hasResult):
		p.word.Reason = fencing.ReasonDeadlineExceeded
	case a.Ordered() != nil && (a.Exit() == nil || a.Exit().Code != 0 || !p.tree.hasResult):
		p.word.Outcome, p.word.Reason = fencing.Cancelled, a.Ordered().Reason
	case a.Exit() == nil, a.IsStopped() && (a.Exit().Code != 0 || !p.tree.hasResult):
		p.word.Outcome, p.word.Reason = fencing.Interrupted, fencing.ReasonTerminated
	case a.Exit().Code == 0:
		p.word.Outcome, p.word.Reason = fencing.Succeeded, fencing.ReasonCompleted
		p.word.Result = new(fmt.Sprintf("result of attempt %d by %s", p.attempt, p.claim.Nonce))
	}
	p.word.Effect = p.effectOf()
	if a.Exit() != nil {
		p.word.ExitCode = new(int32(a.Exit().Code))
	}
	p.report = string(p.reportOf(fencing.DeliveryUnknown).Encode())
	p.note("%s wants to submit %s", p.holder, p.word.Outcome)
	p.wakesAt = p.boot()
}

func (p *process) reportOf(delivery fencing.Delivery) fencing.Report {
	return fencing.Report{Token: p.token, Outcome: p.word.Outcome, Reason: p.word.Reason, Delivery: delivery}
}

func (p *process) hearSubmit(r reply) {
	switch {
	case r.answer == fencing.Accepted:
		p.finish(fencing.DeliveryAccepted)
	case r.answer == fencing.Invalid && p.word.Result != nil:
		p.word = &fencing.Submission{Token: p.token, Outcome: fencing.Failed, Reason: fencing.ReasonResultTooLarge}
		p.wakesAt = p.boot()
	case p.term.IsFinal(r.answer, r.isDenied, p.boot()):
		p.finish(fencing.DeliveryRefused)
	case p.boot() >= p.term.Trust.Next():
		p.stage = keeping
		p.send(fencing.RenewPatch(p.holder, p.claim, p.stamp()))
	default:
		p.rest()
	}
}

// rest waits before the next try to submit.
func (p *process) rest() {
	p.stage = submitting
	p.wakesAt = p.triedAt.Add(holder.Spread(p.pause, 0.5, p.jitter()))
	p.pause = min(2*p.pause, maxSubmitPause, p.timing.Renew)
}

func (p *process) finish(delivery fencing.Delivery) {
	p.note("%s has submitted %s: %s", p.holder, p.word.Outcome, delivery)
	p.checkDelivery(p, delivery)
	code := int32(1)
	if p.word.Outcome == fencing.Succeeded {
		code = 0
	}
	p.end(code, p.reportOf(delivery))
}

func (p *process) end(code int32, report fencing.Report) {
	p.stage, p.exitCode, p.report = ended, code, string(report.Encode())
	p.box.wakeIn(p.upTo(10*time.Millisecond, time.Second))
}

// kill ends the process and all below it, without a word.
func (p *process) kill() {
	if p.stage == ended {
		return
	}
	p.note("%s is killed while %s", p.holder, p.stage)
	p.tree.end()
	p.stage, p.exitCode, p.isDead = ended, 137, true
	p.box.wakeIn(p.upTo(10*time.Millisecond, time.Second))
}

// terminate is SIGTERM.
func (p *process) terminate() {
	switch p.stage {
	case claiming:
		if p.isTold = true; !p.isWaiting && !p.claimant.MayStand() {
			p.abandon(fencing.Interrupted)
		}
	case working:
		p.term.Stop(p.boot())
		p.supervise()
	case submitting, keeping, ended:
	}
}

// thaw lets a frozen process go on: the loop looks at the clock first, whatever woke it.
func (p *process) thaw() {
	p.thawedAt = p.now
	if p.stage == working {
		p.supervise()
	}
	inbox := p.inbox
	p.inbox = nil
	for _, deliver := range inbox {
		deliver()
	}
}

// tree is the child and what it starts.
type tree struct {
	process *process
	isUp    bool // the command runs
	isRest  bool // something that it started runs
	exitsAt time.Duration
	// effectAt is when an attempt has its effect; never: as it ends with success, if it does.
	effectAt time.Duration
	diesAt   time.Duration // of SIGKILL, or by the kernel's reaping it
	exit     holder.Exit
	// hasResult: it writes a result, which counts if it exits 0.
	hasResult bool
	// isSilent: it hangs, and does not say that it works.
	isSilent bool
	obeysIn  time.Duration // after SIGTERM; never: it does not
}

// start draws what the child will do.
func (t *tree) start() {
	w := t.process.world
	t.isUp, t.isRest = true, w.oneIn(5)
	t.exitsAt = w.now + []time.Duration{time.Second, 15 * time.Second, 90 * time.Second}[w.random.IntN(3)]
	t.hasResult, t.obeysIn = true, []time.Duration{0, time.Second, never}[w.random.IntN(3)]
	switch {
	case w.isSettling:
		t.exitsAt = w.now + 2*time.Second
	case t.process.isProbe && w.oneIn(4):
		t.exit = holder.Exit{Code: probeFailed}
	case !t.process.isProbe && w.oneIn(3):
		t.exit = holder.Exit{Code: 1}
	case w.oneIn(4):
		t.exitsAt, t.isSilent = never, true // it hangs
	}
	if !t.process.isProbe && w.oneIn(2) {
		t.effectAt = w.now + w.upTo(0, 20*time.Second)
	}
}

func (t *tree) isAlive() bool { return t.isUp || t.isRest }

func (t *tree) due() time.Duration {
	if !t.isAlive() {
		return never
	}
	if !t.isUp {
		return t.diesAt
	}
	return min(t.exitsAt, t.diesAt, t.effectAt)
}

func (t *tree) act() {
	if t.isUp && t.process.now >= t.effectAt && t.process.now < min(t.exitsAt, t.diesAt) {
		if !t.process.haveEffect() {
			t.hurry(0, 1)
		}
		return
	}
	wasUp := t.isUp
	exit := t.exit
	if t.process.now >= t.diesAt {
		t.end()
		exit = holder.Exit{Code: 137, Signal: 9}
	} else if wasUp {
		exit = t.process.exitOf(exit)
	}
	t.isUp = false
	if wasUp {
		t.process.childEnded(exit)
	} else {
		t.process.supervise()
	}
}

// terminate is SIGTERM to the child. Half of those that obey finish what they do.
func (t *tree) terminate() {
	if !t.isUp || t.obeysIn == never || t.process.now+t.obeysIn >= t.exitsAt {
		return
	}
	t.exitsAt = t.process.now + t.obeysIn
	if t.process.oneIn(2) {
		t.exit, t.hasResult = holder.Exit{Code: 143, Signal: 15}, false
	}
}

// kill is SIGKILL to all of it. The kernel takes a moment.
func (t *tree) kill() {
	if t.isAlive() {
		slowest := []time.Duration{10 * time.Millisecond, 450 * time.Millisecond}[t.process.random.IntN(2)]
		t.diesAt = min(t.diesAt, t.process.now+t.process.upTo(slowest/2, slowest))
	}
}

func (t *tree) end() { t.isUp, t.isRest, t.diesAt = false, false, never }

// hurry lets the child end soon.
func (t *tree) hurry(in time.Duration, code int) {
	if t.isUp {
		t.exitsAt, t.exit = min(t.exitsAt, t.process.now+in), holder.Exit{Code: code}
	}
}
