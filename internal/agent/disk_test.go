package agent

import (
	"errors"
	"testing"
	"time"
)

func TestADiskThatAnswersIsWaitedFor(t *testing.T) {
	t.Parallel()
	d, wrong, done := newDisk(), errors.New("no space"), 0
	for range 3 { // one after the other
		if err := d.within(time.Minute, func() error { done++; return wrong }); !errors.Is(err, wrong) {
			t.Errorf("answered %v", err)
		}
	}
	if done != 3 {
		t.Errorf("done %d times", done)
	}
}

// TestADiskThatHangsIsNotWaitedFor, and gets nothing more to do until it is through.
func TestADiskThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	d, answer, begun := newDisk(), make(chan error), make(chan struct{})
	hangs := func() error { close(begun); return <-answer }
	if err := d.within(10*time.Millisecond, hangs); !errors.Is(err, errDiskHangs) {
		t.Errorf("it hangs: %v", err)
	}
	<-begun
	if err := d.within(10*time.Millisecond, func() error { t.Error("begun beside what hangs"); return nil }); !errors.Is(err, errDiskHangs) {
		t.Errorf("it hangs still: %v", err)
	}
	answer <- nil
	if err := d.within(time.Minute, func() error { return nil }); err != nil {
		t.Errorf("it is through: %v", err)
	}
}
