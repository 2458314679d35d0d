package checker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Audit is what was read of an audit log.
type Audit struct {
	Events []Event
	// Covered is from its first line to its last, of whatever namespace.
	Covered Interval
}

// ReadAudit reads a log and keeps the writes of one namespace. What follows the last newline is being written.
func ReadAudit(log io.Reader, namespace string, into *Audit) error {
	lines := bufio.NewReaderSize(log, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("audit log: %w: %.200q", err, line)
		}
		into.Covered.extend(e.StageTimestamp)
		if e.ObjectRef.Namespace == namespace && isFollowed(&e) {
			into.Events = append(into.Events, e)
		}
	}
}

// isFollowed is true for the end of a write to a Lease, a task or a Pod.
func isFollowed(e *Event) bool {
	switch e.Verb {
	case "create", "update", "patch", "delete":
	default:
		return false
	}
	if e.Stage != "ResponseComplete" && e.Stage != "Panic" {
		return false
	}
	switch e.ObjectRef.Resource {
	case leases, tasks:
		return true
	case pods:
		return e.Verb == "create" && e.ObjectRef.Subresource == ""
	default:
		return false
	}
}
