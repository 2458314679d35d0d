package controller

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// sightPeriod is the pause between two looks at the API server, and the timeout of each.
	sightPeriod = 2 * time.Second
	// blindAfter is how long without an answer makes this process blind: three looks in a row.
	blindAfter = 3 * sightPeriod
)

// Sight knows whether this process can see. While the API server does not answer us it may not answer the workers either,
// and a term must not be judged by what we could not see: once sight returns, every held term gets one full duration.
// That is kindness, not safety; safety is the live read.
type Sight struct {
	mu    sync.Mutex
	floor time.Time // sight is continuous since then
	last  time.Time // the latest answer
}

// NewSight begins blind: the first answer opens the eyes.
func NewSight() *Sight { return &Sight{} }

// Clip moves a time of first sight to when sight was last regained; to now while blind.
func (s *Sight) Clip(since, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.isOpen(now):
		return now
	case since.Before(s.floor):
		return s.floor
	}
	return since
}

// Answered notes an answer of the API server.
func (s *Sight) Answered(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOpen(now) {
		s.floor = now
	}
	s.last = now
}

// IsOpen reports whether the API server has answered lately.
func (s *Sight) IsOpen(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isOpen(now)
}

func (s *Sight) isOpen(now time.Time) bool { return !s.last.IsZero() && now.Sub(s.last) <= blindAfter }

// Looker keeps a sight open by looking at the API server. It runs on every replica.
type Looker struct {
	Sight *Sight
	Live  client.Reader
	Clock clock.WithTicker
	// Name is the object to look at; it need not exist.
	Name types.NamespacedName
}

// NeedLeaderElection is false: standby replicas observe too.
func (l *Looker) NeedLeaderElection() bool { return false }

// Start looks until the context ends.
func (l *Looker) Start(ctx context.Context) error {
	ticker := l.Clock.NewTicker(sightPeriod)
	defer ticker.Stop()
	for {
		l.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

func (l *Looker) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sightPeriod)
	defer cancel()
	if err := l.Live.Get(ctx, l.Name, &corev1.ConfigMap{}); err == nil || apierrors.IsNotFound(err) {
		l.Sight.Answered(l.Clock.Now())
	}
}
