package flock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func acquire(t *testing.T, path string) *Lock {
	t.Helper()
	lock, err := Acquire(t.Context(), path, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestAcquireWaitsForTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := acquire(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Acquire(ctx, path, cancel)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Acquire of a held lock = %v, want it to wait until cancelled", err)
	}
	first.Release()
	acquire(t, path).Release()
}

func TestAcquireAfterRemoveGetsALockThatOthersSee(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first := acquire(t, path)
	got := make(chan *Lock)
	go func() {
		lock, _ := Acquire(context.Background(), path, func() { first.Remove() })
		got <- lock
	}()
	second := <-got
	if second == nil {
		t.Fatal("Acquire failed after Remove")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*pollInterval+time.Second)
	defer cancel()
	if _, err := Acquire(ctx, path, cancel); err == nil {
		t.Error("a third Acquire got the lock while the second holds it")
	}
}
