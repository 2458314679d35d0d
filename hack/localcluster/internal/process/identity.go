package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Identity names one process; see the package doc.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks since boot, field 22 of /proc/<pid>/stat
	Boot  string `json:"boot"`
}

// Self is the identity of the calling process. exec keeps it.
func Self() (Identity, error) {
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	stat, err := ReadStat(os.Getpid())
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: os.Getpid(), Start: stat.Start, Boot: boot}, nil
}

// Load reads a pid file; found is false when there is none or it is not whole.
func Load(pidFile string) (id Identity, found bool, err error) {
	content, err := os.ReadFile(pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, false, nil
	}
	if err != nil {
		return Identity{}, false, fmt.Errorf("read pid file: %w", err)
	}
	if json.Unmarshal(content, &id) != nil || id.PID <= 1 {
		return Identity{}, false, nil
	}
	return id, true, nil
}

func (id Identity) save(pidFile string) error {
	content, err := json.Marshal(id)
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	tmp := pidFile + ".tmp"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	return os.Rename(tmp, pidFile)
}

// IsAlive is true while that very process runs; a zombie does not count.
func (id Identity) IsAlive() bool {
	boot, err := bootID()
	if err != nil || boot != id.Boot {
		return false
	}
	stat, err := ReadStat(id.PID)
	return err == nil && stat.Start == id.Start && !stat.IsDead()
}

// IsAlive reports whether the process of a pid file runs.
func IsAlive(pidFile string) bool {
	id, found, err := Load(pidFile)
	return err == nil && found && id.IsAlive()
}

func bootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// Stat is what we use of /proc/<pid>/stat.
type Stat struct {
	State byte
	Start uint64
}

// IsDead is true for a zombie: ended, but not yet reaped.
func (s Stat) IsDead() bool { return s.State == 'Z' || s.State == 'X' }

// IsStopped is true after SIGSTOP took effect (T) or under a debugger (t).
func (s Stat) IsStopped() bool { return s.State == 'T' || s.State == 't' }

// ReadStat reads /proc/<pid>/stat.
func ReadStat(pid int) (Stat, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	return parseStat(string(content))
}

// parseStat starts behind the last ')', because the command name in front of it may hold spaces and parentheses.
func parseStat(content string) (Stat, error) {
	const stateField, startField = 0, 19 // counted behind the command name
	_, rest, found := cutLast(content, ")")
	fields := strings.Fields(rest)
	if !found || len(fields) <= startField {
		return Stat{}, fmt.Errorf("stat %q is too short", content)
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("start time in stat: %w", err)
	}
	return Stat{State: fields[stateField][0], Start: start}, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
