package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Process is the life of one process, from its journal.
type Process struct {
	Start
	File    string
	Started time.Time
	Beats   []time.Time // with the start and the end
	Exit    *int        // nil: it did not end by itself
}

// LastSeen is the last moment at which the process is known to have run.
func (p *Process) LastSeen() time.Time { return p.Beats[len(p.Beats)-1] }

// Pause is a time in which a process did not run: no beat inside it.
type Pause struct{ From, To time.Time }

// Pauses are those of at least the given length.
func (p *Process) Pauses(atLeast time.Duration) (pauses []Pause) {
	for i := 1; i < len(p.Beats); i++ {
		if p.Beats[i].Sub(p.Beats[i-1]) >= atLeast {
			pauses = append(pauses, Pause{From: p.Beats[i-1], To: p.Beats[i]})
		}
	}
	return pauses
}

// ReadAll reads every journal of a directory, in the order in which the processes started. A journal that cannot be read is an
// error, and does not keep the others from being read; one without a single whole line belongs to a process that was killed
// before it said anything.
func ReadAll(dir fs.FS) ([]Process, error) {
	names, err := fs.Glob(dir, "*.jsonl")
	if err != nil {
		return nil, err
	}
	var processes []Process
	var errs []error
	for _, name := range names {
		content, err := fs.ReadFile(dir, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p, err := read(name, content)
		if err != nil {
			errs = append(errs, fmt.Errorf("journal %s: %w", name, err))
		} else if p != nil {
			processes = append(processes, *p)
		}
	}
	slices.SortStableFunc(processes, func(a, b Process) int { return a.Started.Compare(b.Started) })
	return processes, errors.Join(errs...)
}

func read(name string, content []byte) (*Process, error) {
	whole := content[:bytes.LastIndexByte(content, '\n')+1]
	var p *Process
	for text := range strings.Lines(string(whole)) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		switch {
		case p == nil && l.Start != nil:
			p = &Process{Start: *l.Start, File: name, Started: l.At}
		case p == nil:
			return nil, fmt.Errorf("it does not begin with the start: %q", text)
		case l.Start != nil:
			return nil, errors.New("it has two starts")
		case p.Exit != nil:
			return nil, errors.New("it goes on after its end")
		}
		p.Beats = append(p.Beats, l.At)
		p.Exit = l.Exit
	}
	return p, nil
}
