package agent

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// SystemClock reads CLOCK_BOOTTIME, and the given function for the wall clock.
type SystemClock func() time.Time

// Boot implements [Clock].
func (SystemClock) Boot() holder.Boot {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("CLOCK_BOOTTIME cannot be read: %v", err)) // no kernel that runs Kubernetes lacks it
	}
	return holder.Boot(ts.Nano())
}

// Wall implements [Clock].
func (wall SystemClock) Wall() time.Time { return wall() }

// TimerAlarm is an alarm on a timerfd. Unlike the runtime's timers, it goes off as soon as a suspended machine wakes.
type TimerAlarm struct {
	file *os.File
	conn int
	c    chan struct{}
}

// NewTimerAlarm makes an alarm that is not set.
func NewTimerAlarm() (*TimerAlarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer on CLOCK_BOOTTIME: %w", err)
	}
	a := &TimerAlarm{file: os.NewFile(uintptr(fd), "timerfd"), conn: fd, c: make(chan struct{}, 1)}
	go a.watch()
	return a, nil
}

func (a *TimerAlarm) watch() {
	var expirations [8]byte
	for {
		if _, err := a.file.Read(expirations[:]); err != nil {
			return // closed
		}
		select {
		case a.c <- struct{}{}:
		default: // one wake-up is pending
		}
	}
}

// Set implements [Alarm].
func (a *TimerAlarm) Set(at holder.Boot) {
	spec := unix.ItimerSpec{}
	if at != holder.Never {
		spec.Value = unix.NsecToTimespec(max(int64(at), 1)) // 0 would switch the alarm off
	}
	if err := unix.TimerfdSettime(a.conn, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		panic(fmt.Sprintf("a timer with a valid time cannot fail: %v", err))
	}
}

// C implements [Alarm].
func (a *TimerAlarm) C() <-chan struct{} { return a.c }

// Close ends the alarm.
func (a *TimerAlarm) Close() error { return a.file.Close() }
