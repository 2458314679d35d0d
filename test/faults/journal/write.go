package journal

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Interval is the time between two beats.
const Interval = 100 * time.Millisecond

// Start is what a process says of itself.
type Start struct {
	Task    string `json:"task"`
	Attempt int    `json:"attempt"`
	Token   int64  `json:"token"`
	Pod     string `json:"pod"`
	Role    string `json:"role"` // Main or Child
	PID     int    `json:"pid"`  // in its container
}

// Roles of a worker's processes.
const (
	Main  = "main"  // the command that the agent starts
	Child = "child" // what the command starts
)

type line struct {
	At    time.Time `json:"at"`
	Start *Start    `json:"start,omitempty"`
	Exit  *int      `json:"exit,omitempty"`
}

// Journal is a process's own file. Nothing is written after the end.
type Journal struct {
	mu    sync.Mutex
	file  *os.File
	ended bool
}

// Open begins the journal of this process, in a file that nobody else writes. The directory is shared by all nodes' workers.
func Open(dir string, start Start) (*Journal, error) {
	file, err := os.CreateTemp(dir, fmt.Sprintf("%s-%s-*.jsonl", start.Pod, start.Role))
	if err != nil {
		return nil, err
	}
	j := &Journal{file: file}
	return j, j.write(line{Start: &start})
}

// Beat says that the process runs.
func (j *Journal) Beat() error { return j.write(line{}) }

// End says that it ends by itself, and with which exit code.
func (j *Journal) End(code int) error { return j.write(line{Exit: &code}) }

func (j *Journal) write(l line) error {
	l.At = time.Now()
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return nil
	}
	j.ended = l.Exit != nil
	_, err = j.file.Write(append(raw, '\n'))
	return err
}
