package httpguard

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// disk is the file of a journal, and knows what would be there if the power were cut: what was flushed, and any part of the rest.
type disk struct {
	journal
	written []byte
	flushed int
}

func (d *disk) Write(b []byte) (int, error) {
	d.written = append(d.written, b...)
	return d.journal.Write(b)
}

func (d *disk) Sync() error {
	d.flushed = len(d.written)
	return d.journal.Sync()
}

// afterCuts is what the next proxy finds in each case.
func (d *disk) afterCuts(t *testing.T, name string) (found []Entry) {
	t.Helper()
	rest := len(d.written) - d.flushed
	for _, survived := range []int{0, rest / 2, max(0, rest-1), rest} {
		path := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(path, d.written[:d.flushed+survived], 0o600); err != nil {
			t.Fatal(err)
		}
		next, err := OpenLedger(path)
		if err != nil {
			t.Fatalf("%d of %d bytes that were not flushed survive: %v", survived, rest, err)
		}
		found = append(found, next.Look(name))
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// TestACutOfPowerHidesNoRequest: whenever the machine dies, the next proxy knows the mark, and of each request without an answer that it may
// have happened. What was answered may be uncertain.
func TestACutOfPowerHidesNoRequest(t *testing.T) {
	l, err := OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	d := &disk{journal: l.journal}
	l.journal = d
	for i, request := range []struct {
		token      guard.Token
		isAnswered bool
	}{{7, true}, {7, true}, {7, false}, {7, true}, {7, true}, {8, false}, {8, false}, {8, true}, {8, true}} {
		_, end, err := l.begin(t.Context(), "/a", request.token)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range d.afterCuts(t, "/a") {
			if got != (Entry{Mark: request.token, Uncertain: true}) {
				t.Errorf("request %d, under %d, is with the upstream; the next proxy finds %+v", i, request.token, got)
			}
		}
		if err := end(request.isAnswered); err != nil {
			t.Fatal(err)
		}
		for _, got := range d.afterCuts(t, "/a") {
			if got.Mark != request.token || !got.Uncertain && !request.isAnswered {
				t.Errorf("request %d, under %d, answered: %v; the next proxy finds %+v", i, request.token, request.isAnswered, got)
			}
		}
	}
}
