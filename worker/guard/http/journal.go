package httpguard

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// The kinds of lines in the journal.
const (
	opBegin = "begin" // a request is forwarded; the mark is at least its token
	opEnd   = "end"   // it was answered
	opReset = "reset" // the mark is lowered
	opMark  = "mark"  // the state when the journal was last shortened
)

// slack is how many lines the journal may have beyond one for each resource and a half.
const slack = 20_000

type line struct {
	Op        string      `json:"op"`
	Resource  string      `json:"resource"`
	Token     guard.Token `json:"token"`
	Uncertain bool        `json:"uncertain,omitempty"`
}

type auditLine struct {
	At       time.Time   `json:"at"`
	By       string      `json:"by"`
	Reason   string      `json:"reason"`
	Resource string      `json:"resource"`
	From     guard.Token `json:"from"`
	To       guard.Token `json:"to"`
}

// replay reads the journal. The last line may be torn by a crash; its request was not forwarded. Anything else that cannot be read is an
// error, because a mark may be in it.
func (l *Ledger) replay() error {
	file, err := os.Open(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		text, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var entry line
		if err := json.Unmarshal(text, &entry); err != nil {
			return fmt.Errorf("%s, line %d: %w", l.path, number, err)
		}
		if err := l.apply(entry); err != nil {
			return fmt.Errorf("%s, line %d: %w", l.path, number, err)
		}
	}
}

func (l *Ledger) apply(entry line) error {
	r := l.resources[entry.Resource]
	if r == nil {
		r = &resource{busy: make(chan struct{}, 1)}
		l.resources[entry.Resource] = r
	}
	switch entry.Op {
	case opBegin:
		r.mark, r.uncertain = max(r.mark, entry.Token), true
	case opEnd:
		r.uncertain = false
	case opReset:
		r.mark = entry.Token
	case opMark:
		r.mark, r.uncertain = entry.Token, entry.Uncertain
	default:
		return fmt.Errorf("unknown kind %q", entry.Op)
	}
	return nil
}

// compact writes a journal of one line for each resource and takes it into use.
func (l *Ledger) compact() error {
	next, err := os.OpenFile(l.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	buffer := bufio.NewWriter(next)
	encoder := json.NewEncoder(buffer)
	lines := 0
	for name, r := range l.resources {
		if r.mark == 0 && !r.uncertain {
			continue
		}
		lines++
		if err := encoder.Encode(line{Op: opMark, Resource: name, Token: r.mark, Uncertain: r.uncertain}); err != nil {
			return errors.Join(err, next.Close())
		}
	}
	err = errors.Join(buffer.Flush(), next.Sync())
	if err == nil { // until here the old journal is the only one that is whole
		err = errors.Join(os.Rename(next.Name(), l.path), syncDir(filepath.Dir(l.path)))
	}
	if err != nil {
		return errors.Join(err, next.Close())
	}
	if l.journal != nil {
		_ = l.journal.Close()
	}
	l.journal, l.lines = next, lines
	return nil
}

// write appends a line, and waits for the disk if it must be there before anything else happens. After an error nobody knows what
// the disk holds, so nothing is written any more and every request is refused until the proxy is started again.
func (l *Ledger) write(entry line, flush bool) error {
	if l.broken != nil {
		return l.broken
	}
	text, err := json.Marshal(entry)
	if err == nil {
		_, err = l.journal.Write(append(text, '\n'))
	}
	if err == nil && flush {
		err = l.journal.Sync()
	}
	l.lines++
	if err == nil && l.lines > slack+len(l.resources)*3/2 {
		// The line is in the old journal, but not yet in the state that the new one is made of.
		if err = l.apply(entry); err == nil {
			err = l.compact()
		}
	}
	if err != nil {
		l.broken = fmt.Errorf("the ledger cannot be written: %w", err)
	}
	return l.broken
}

func (l *Ledger) audit(order Reset, from guard.Token) error {
	text, err := json.Marshal(auditLine{At: order.At.UTC(), By: order.By, Reason: order.Reason, Resource: order.Resource, From: from, To: order.To})
	if err != nil {
		return err
	}
	file, err := os.OpenFile(l.path+".audit", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Sync(), file.Close(), syncDir(filepath.Dir(l.path)))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
