package holder

// Heartbeat says what keeps a lease renewed. It is closed.
type Heartbeat string

const (
	// Process: that the command runs.
	Process Heartbeat = "Process"
	// Application: that the command says so, again and again.
	Application Heartbeat = "Application"
)

// heartbeat is what is known of a command that has to say that it works. The zero value is of one that does not have to.
type heartbeat struct {
	required bool
	last     Boot // when it last said so, or was started
	missed   bool // it has not said so in time, and is being ended for it
}

// RequireHeartbeats begins an attempt whose command has to say that it works, see [Attempt.Beat]: within the time for which a
// term is trusted after its last renewal, three quarters of D. If it does not, it is told to stop and killed within the time of
// a fence, so that hung work has ended before D has passed since it was last heard. It is no fence: the term stands.
func (a *Attempt) RequireHeartbeats() { a.heart.required = true }

// Beat records that the command said at the given time that it works. Its start counts for the first time.
func (a *Attempt) Beat(at Boot) { a.heart.last = max(a.heart.last, at) }

// heartDue is when the command will have been silent for too long; Never: it need not say anything now. One that is told to stop
// has its grace, and one that has ended has nothing more to say.
func (a *Attempt) heartDue() Boot {
	if !a.heart.required || a.heart.missed || !a.started || a.isOver() || a.isStopping() {
		return Never
	}
	return a.heart.last.Add(a.Trust.timing.Trust())
}

// listen ends the command of an attempt that has been silent for too long. The plan counts from when it is noticed: what was
// found late, because the machine stood still say, still gets its signal before it is killed.
func (a *Attempt) listen(now Boot) {
	if now < a.heartDue() {
		return
	}
	a.heart.missed, a.deadline = true, Never // what it ends for is settled
	a.kill(now.Add(a.Trust.timing.KillAfter()))
}

// IsHeartbeatMissed reports whether the command was ended because it did not say in time that it works.
func (a *Attempt) IsHeartbeatMissed() bool { return a.heart.missed }
