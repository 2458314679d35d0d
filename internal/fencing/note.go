package fencing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

const (
	// ProgressAnnotation and CheckpointAnnotation hold what a worker says while it works.
	ProgressAnnotation   = "leasehold.io/progress"
	CheckpointAnnotation = "leasehold.io/checkpoint"

	progressPath   = "/metadata/annotations/leasehold.io~1progress"
	checkpointPath = "/metadata/annotations/leasehold.io~1checkpoint"

	// MaxProgressBytes bounds progress in its stored form; the admission policy holds the same number.
	MaxProgressBytes = 1024
	// MaxProgressMessageBytes bounds the message inside it.
	MaxProgressMessageBytes = 256
	// MaxCheckpointBytes bounds a checkpoint; the admission policy holds the same number.
	MaxCheckpointBytes = 1024
)

// Note is what a holder says with a renewal, or with its submission, beside that it is alive. nil leaves what stands.
type Note struct {
	Progress   *string
	Checkpoint *string
}

// IsEmpty reports whether the note says nothing.
func (n Note) IsEmpty() bool { return n == Note{} }

func (n Note) operations() (ops []operation) {
	if n.Progress != nil {
		ops = append(ops, add(progressPath, *n.Progress))
	}
	if n.Checkpoint != nil {
		ops = append(ops, add(checkpointPath, *n.Checkpoint))
	}
	return ops
}

// RenewPatch is a renewal that carries the note.
func (n Note) RenewPatch(holder string, claim Claim, now time.Time) []byte {
	ops := []operation{test(holderPath, holder), test(claimPath, claim.String()), add(renewPath, formatTime(now))}
	return encode(append(ops, n.operations()...)...)
}

// SubmitPatch is a submission that carries the note. See [SubmitPatch].
func (n Note) SubmitPatch(holder string, claim Claim, encoded []byte) []byte {
	return encode(append(submitOps(holder, claim, encoded), n.operations()...)...)
}

// Progress is how far a worker has come, in units of its own.
type Progress struct {
	Current int64  `json:"current"`
	Total   int64  `json:"total,omitempty"` // 0: not known
	Message string `json:"message,omitempty"`
}

// Problem says what is wrong with it; empty: nothing. That current is above total is not: totals are estimates.
func (p *Progress) Problem() string {
	switch {
	case p.Current < 0:
		return fmt.Sprintf("current is %d, and cannot be below 0", p.Current)
	case p.Total < 0:
		return fmt.Sprintf("total is %d, and cannot be below 0", p.Total)
	case len(p.Message) > MaxProgressMessageBytes:
		return fmt.Sprintf("message has %d bytes, allowed are %d", len(p.Message), MaxProgressMessageBytes)
	}
	if size := len(p.Encode()); size > MaxProgressBytes {
		return fmt.Sprintf("it has %d bytes once encoded, allowed are %d", size, MaxProgressBytes)
	}
	return ""
}

// Encode is the stored form.
func (p *Progress) Encode() string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		panic("a progress of numbers and text cannot fail to encode: " + err.Error()) // programming error
	}
	return string(bytes.TrimSpace(buf.Bytes()))
}

// ParseProgress reads the stored form. It is nil for anything that is none: a child may have written it.
func ParseProgress(stored string) *Progress {
	p := &Progress{}
	if stored == "" || len(stored) > 4*MaxProgressBytes || json.Unmarshal([]byte(stored), p) != nil || p.Current < 0 || p.Total < 0 {
		return nil
	}
	p.Message = Truncate(p.Message, MaxProgressMessageBytes)
	return p
}

// ParseCheckpoint reads what stands for a checkpoint; empty: there is none, or what stands there is none.
func ParseCheckpoint(stored string) string {
	if len(stored) > MaxCheckpointBytes || !utf8.ValidString(stored) {
		return ""
	}
	return stored
}

// Heard is what a holder learns from the Lease that answers its patch.
type Heard struct {
	Stop       *Stop  // nil: nobody asked it to end
	Checkpoint string // of this term, or of the one before
}

// HeardIn finds it in a Lease, as the API server sends it with every accepted patch; nothing, if what was read is no Lease.
func HeardIn(lease []byte) (h Heard) {
	var l struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if json.Unmarshal(lease, &l) != nil {
		return h
	}
	if raw := l.Metadata.Annotations[StopAnnotation]; raw != "" {
		stop := ParseStop(raw)
		h.Stop = &stop
	}
	h.Checkpoint = ParseCheckpoint(l.Metadata.Annotations[CheckpointAnnotation])
	return h
}
