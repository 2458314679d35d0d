package httpguard

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// unflushed saves the time of some ten thousand flushes.
type unflushed struct{ journal }

func (unflushed) Sync() error { return nil }

func TestJournalIsShortened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	l.journal = unflushed{l.journal}
	const requests = slack/2 + 5 // of two lines each
	for range requests {
		_, end, err := l.begin(t.Context(), "/a", 7)
		if err != nil {
			t.Fatal(err)
		}
		if err := end(true); err != nil {
			t.Fatal(err)
		}
	}
	journal, err := os.ReadFile(path)
	if lines := bytes.Count(journal, []byte("\n")); err != nil || lines > 20 {
		t.Errorf("after %d requests the journal has %d lines, %v", requests, lines, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if got := again.Look("/a"); got != (Entry{Mark: 7}) {
		t.Errorf("after shortening: %+v", got)
	}
}

// TestAFullDiskLosesNoMark: the journal is replaced only by one that is whole.
func TestAFullDiskLosesNoMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	if err := os.WriteFile(path, []byte(`{"op":"mark","resource":"/a","token":7}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", path+".new"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLedger(path); err == nil {
		t.Fatal("a journal was written to a full disk")
	}
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Fatalf("the journal was replaced: %v, %v", info, err)
	}
	if err := os.Remove(path + ".new"); err != nil {
		t.Error(err)
	}
	again, err := OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if got := again.Look("/a"); got != (Entry{Mark: 7}) {
		t.Errorf("once there is room again: %+v", got)
	}
}
