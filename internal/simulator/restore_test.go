package simulator

import (
	"maps"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// backup is what a restore of etcd brings back, and what the checks knew then.
type backup struct {
	revision           int64
	tasks, terms, pods int
	accepted           map[fencing.Token]fencing.Submission
	over               map[int32]bool
	won                fencing.Token
	renewedAt          time.Duration
	dead               *v1alpha1.DeadLetter
}

func (a *apiServer) takeBackup() {
	a.backup = &backup{a.revision, len(a.task), len(a.term), len(a.pods), maps.Clone(a.ledger.accepted), maps.Clone(a.ledger.over), a.ledger.won, a.ledger.renewedAt, a.dead}
}

// restore brings back the backup, as docs/operating.md says: the operator is stopped meanwhile, and the epoch is raised, or
// the revisions are bumped. The processes on the nodes go on; nobody tells them.
func (a *apiServer) restore() {
	b := a.backup
	if b == nil || a.epoch == 0 {
		return
	}
	a.note("the API server's state of revision %d is restored", b.revision)
	a.task, a.term, a.pods = a.task[:b.tasks:b.tasks], a.term[:b.terms:b.terms], a.pods[:b.pods:b.pods]
	a.dead = b.dead
	if a.oneIn(2) {
		a.epoch++
		a.revision = b.revision
	} else {
		a.revision += 1_000_000
	}
	a.ledger.accepted, a.ledger.over, a.ledger.won = maps.Clone(b.accepted), maps.Clone(b.over), b.won
	a.ledger.renewedAt, a.ledger.restored = b.renewedAt, a.now
	term := a.term.live()
	for _, p := range a.processes {
		if term == nil || term.Claim == nil || term.Claim.String() != p.claim.String() {
			p.isOrphan = true
			delete(a.ledger.starters, p.token)
		}
	}
	a.network.messages, a.network.recent = nil, nil // they end with the API server that was stopped
	a.eachBox((*box).restored)
	for _, c := range a.controllers {
		if c.isFrozen {
			c.isFrozen = false
		}
		c.start(a.upTo(time.Second, 20*time.Second))
	}
	a.controllers[a.random.IntN(2)].leads = true
}

// restored lets a kubelet find its Pod as it was: it reports again how it ended, or starts one that it has forgotten.
func (b *box) restored() {
	pod := b.api.pod(b.uid)
	b.isReported = pod != nil && isFinished(pod)
	switch {
	case pod == nil:
	case b.isGone && !isFinished(pod):
		b.isGone = false
		if len(b.processes) > 0 {
			b.run()
		}
	}
	b.wakeIn(b.upTo(0, time.Second))
}
