package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const pollInterval = 200 * time.Millisecond

// Lock is a held lock.
type Lock struct {
	file *os.File
}

// Acquire takes the lock at path and waits while somebody else has it; waiting is called once before the first wait.
func Acquire(ctx context.Context, path string, waiting func()) (*Lock, error) {
	told := false
	for {
		lock, err := try(path)
		if err != nil || lock != nil {
			return lock, err
		}
		if !told {
			waiting()
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s: %w", path, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// try returns nil without an error when the lock is taken.
func try(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		_ = file.Close()
		return nil, nil
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !isStill(file, path) {
		_ = file.Close()
		return nil, nil
	}
	return &Lock{file: file}, nil
}

// isStill is false when the previous holder removed the file between our open and our lock.
func isStill(file *os.File, path string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	current, err := os.Stat(path)
	return err == nil && os.SameFile(ours, current)
}

// File is what a child inherits to share the lock.
func (l *Lock) File() *os.File { return l.file }

// Release frees the lock and leaves the file.
func (l *Lock) Release() { _ = l.file.Close() }

// Remove deletes the file and frees the lock. Those who wait make a new file.
func (l *Lock) Remove() {
	_ = os.Remove(l.file.Name())
	_ = l.file.Close()
}
