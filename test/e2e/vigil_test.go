package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// Evidence of what really ran, and when. It comes from the kernel, which all nodes of the local cluster share, and not from
// the API server: all times are CLOCK_BOOTTIME, on which the kernel notes the start of every process.

// tellStart makes the kernel's account of when the shell was started its result. (In a Pod's command, $$ is an escaped $.)
const tellStart = `read -r stat < /proc/self/stat; set -- $stat; echo "${22}" > "$LEASEHOLD_RESULT_FILE"`

// tick is the unit of that account.
const tick = 10 * time.Millisecond

// startedAt reads the result that tellStart wrote.
func (s *story) startedAt(task *v1alpha1.LeasedTask) time.Duration {
	s.Helper()
	s.must(task.Status.Result != nil, "task %s has no result: %+v", task.Name, task.Status)
	ticks, err := strconv.ParseInt(strings.TrimSpace(*task.Status.Result), 10, 64)
	s.ok(err)
	return time.Duration(ticks) * tick
}

func boottime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // only a clock that the kernel does not know
	}
	return time.Duration(now.Nano())
}

// vigil watches processes and remembers when one of them was last seen alive.
type vigil struct {
	mu     sync.Mutex
	seen   time.Duration
	isOver bool // all are dead
}

// vigilInterval bounds how much earlier than the death the last sight is.
const vigilInterval = 10 * time.Millisecond

// watch keeps a vigil over the children of the holder's agent until they are dead or the test has ended.
func (s *story) watch(task *v1alpha1.LeasedTask) *vigil {
	s.Helper()
	alive := map[int]string{} // start time by process, so that another process with the same number is none of them
	for _, pid := range s.children(task) {
		alive[pid] = startOf(pid)
	}
	v := &vigil{seen: boottime()}
	go func() {
		for ; len(alive) > 0 && s.Context().Err() == nil; time.Sleep(vigilInterval) {
			now := boottime() // before the look: it is never later than what is seen
			for pid, start := range alive {
				if start == "" || startOf(pid) != start {
					delete(alive, pid)
				}
			}
			v.note(now, len(alive) == 0)
		}
	}()
	return v
}

func (v *vigil) note(now time.Duration, isOver bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.isOver = isOver; !isOver {
		v.seen = now
	}
}

// last is when one of the processes was last seen alive; over says that none of them is any more.
func (v *vigil) last() (seen time.Duration, over bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen, v.isOver
}

// startOf is when the kernel started a process, in ticks; empty if it is gone, or dead and not yet reaped.
func startOf(pid int) string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(content), ") ") // behind the command's name
	fields := strings.Fields(rest)
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

// mustBeDeadBefore: all that was watched was dead before the given moment.
func (s *story) mustBeDeadBefore(v *vigil, moment time.Duration, what string) {
	s.Helper()
	seen, isOver := v.last()
	s.must(isOver, "the first attempt's processes are still alive")
	s.must(seen < moment, "the first attempt's processes were alive until %s after %s", seen-moment, what)
	s.Logf("the first attempt's processes died %s before %s", (moment - seen).Round(time.Millisecond), what)
}

// mustLive: something that is watched is alive now.
func (s *story) mustLive(v *vigil, who string) {
	s.Helper()
	seen, isOver := v.last()
	s.must(!isOver, "%s was last seen alive %s ago", who, (boottime() - seen).Round(time.Millisecond))
}
