package process

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// killWait bounds the wait after SIGKILL; only a process stuck in the kernel needs longer.
const killWait = 10 * time.Second

// Stop ends the process of a pid file (SIGTERM, after grace SIGKILL), waits for its end and removes the file. A process that
// is gone, or a pid that now belongs to somebody else, is left alone and no error.
func Stop(pidFile string, grace time.Duration) error {
	id, found, err := Load(pidFile)
	if err != nil {
		return err
	}
	if found {
		if err := id.stop(grace); err != nil {
			return fmt.Errorf("stop the process of %s: %w", pidFile, err)
		}
	}
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove pid file: %w", err)
	}
	return nil
}

func (id Identity) stop(grace time.Duration) error {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open pidfd of %d: %w", id.PID, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !id.IsAlive() {
		return nil
	}
	if err := send(fd, unix.SIGTERM); err != nil || waitExit(fd, grace) {
		return err
	}
	if err := send(fd, unix.SIGKILL); err != nil || waitExit(fd, killWait) {
		return err
	}
	return fmt.Errorf("pid %d survived SIGKILL for %s", id.PID, killWait)
}

// SignalIf sends a signal when isOurs still holds after the pid was pinned; a process that is gone is no error.
func SignalIf(pid int, signal unix.Signal, isOurs func(pid int) bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: a thread, not a process
		return nil
	}
	if err != nil {
		return fmt.Errorf("open pidfd of %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !isOurs(pid) {
		return nil
	}
	return send(fd, signal)
}

func send(fd int, signal unix.Signal) error {
	err := unix.PidfdSendSignal(fd, signal, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %s: %w", signal, err)
	}
	return nil
}

// waitExit is true when the process ended within the time.
func waitExit(fd int, within time.Duration) bool {
	deadline := time.Now().Add(within)
	for {
		left := time.Until(deadline)
		if left < 0 {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}
