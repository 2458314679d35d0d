package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	start := Start{Task: "t", Attempt: 2, Token: 7, Pod: "t-2-x", Role: Child, PID: 3}
	j, err := Open(dir, start)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{j.Beat(), j.Beat(), j.End(4), j.Beat()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	// A line that was cut off by the end of the process counts as not written.
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], append(content, `{"at":"2026`...), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := ReadAll(os.DirFS(dir))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	p := all[0]
	if diff := cmp.Diff(start, p.Start); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(p.Beats) != 4 || p.Exit == nil || *p.Exit != 4 || !p.Started.Equal(p.Beats[0]) {
		t.Errorf("%+v", p)
	}
}

func TestPauses(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := Process{Beats: []time.Time{t0, t0.Add(time.Second), t0.Add(4 * time.Second), t0.Add(5 * time.Second)}}
	want := []Pause{{From: t0.Add(time.Second), To: t0.Add(4 * time.Second)}}
	if diff := cmp.Diff(want, p.Pauses(2*time.Second)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestABrokenJournalIsAnErrorAndNoMore(t *testing.T) {
	const start = `{"at":"2026-01-01T00:00:00Z","start":{"task":"t","attempt":1}}` + "\n"
	all, err := ReadAll(fstest.MapFS{
		"good.jsonl":      {Data: []byte(start)},
		"empty.jsonl":     {},
		"no-json.jsonl":   {Data: []byte(start + "x\n")},
		"no-start.jsonl":  {Data: []byte(`{"at":"2026-01-01T00:00:00Z"}` + "\n")},
		"two.jsonl":       {Data: []byte(start + start)},
		"after-end.jsonl": {Data: []byte(start + `{"at":"2026-01-01T00:00:00Z","exit":0}` + "\n" + `{"at":"2026-01-01T00:00:01Z"}` + "\n")},
	})
	if len(all) != 1 || err == nil {
		t.Errorf("%v, %v", all, err)
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 4 {
		t.Errorf("want four errors: %v", err)
	}
}
