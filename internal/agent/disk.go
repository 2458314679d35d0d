package agent

import (
	"errors"
	"time"
)

// fileWait is how long a signal, a renewal or the last exit waits for a file: far less than the second that a fence has, at the
// shortest D, from the end of trust to SIGKILL.
const fileWait = 200 * time.Millisecond

var errDiskHangs = errors.New("the file system does not answer in time")

// disk is how the agent uses files while something of the tree may live: a file system may take any time, or never answer, and
// neither a kill nor a renewal may wait for that. It does one thing at a time, so that what hangs is one goroutine and one thread.
type disk chan struct{}

func newDisk() disk { return make(disk, 1) }

// within waits for do for a while, and then no longer. What hangs is left to itself, and nothing is begun before it is through.
func (d disk) within(wait time.Duration, do func() error) error {
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case d <- struct{}{}:
	case <-late.C:
		return errDiskHangs
	}
	done := make(chan error, 1)
	go func() {
		err := do()
		<-d
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return errDiskHangs
	}
}
