package fencing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestWhatIsForgedIsBounded(t *testing.T) {
	tests := map[string]struct{ stored, want string }{
		"a failure's own words":          {`{"token":1,"outcome":"Failed","effect":"None","retryable":false,"retryAfterSeconds":60}`, `{"token":1,"outcome":"Failed","effect":"None","retryable":false,"retryAfterSeconds":60}`},
		"another effect":                 {`{"token":1,"outcome":"Failed","effect":"Maybe"}`, `{"token":1,"outcome":"Failed"}`},
		"a pause below 0":                {`{"token":1,"outcome":"Failed","retryAfterSeconds":-5}`, `{"token":1,"outcome":"Failed","retryAfterSeconds":0}`},
		"a pause of weeks":               {`{"token":1,"outcome":"Failed","retryAfterSeconds":2147483647}`, `{"token":1,"outcome":"Failed","retryAfterSeconds":86400}`},
		"a pause that is no number":      {`{"token":1,"outcome":"Failed","retryAfterSeconds":1e99}`, `{"token":0,"outcome":"Failed","reason":"MalformedSubmission","message":"the submission is no valid JSON"}`},
		"a class of a disruption":        {`{"token":1,"outcome":"Fenced","effect":"None","retryable":false,"retryAfterSeconds":1}`, `{"token":1,"outcome":"Fenced","effect":"None"}`},
		"a class of a success":           {`{"token":1,"outcome":"Succeeded","retryable":false}`, `{"token":1,"outcome":"Succeeded"}`},
		"a class of what cannot be read": {`{"token":1,"outcome":"Odd","retryable":false}`, `{"token":1,"outcome":"Failed","reason":"MalformedSubmission","message":"unknown outcome \"Odd\""}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := fencing.ParseSubmission(tc.stored).Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestASubmissionWithoutATokenClassifiesNothing(t *testing.T) {
	forged := fencing.ParseSubmission(`{"token":0,"outcome":"Failed","reason":"MalformedSubmission","retryable":false,"retryAfterSeconds":9}`)
	if got := forged.Verify(7); got.Retryable != nil || got.RetryAfterSeconds != nil {
		t.Errorf("%+v", got)
	}
	other := fencing.ParseSubmission(`{"token":6,"outcome":"Failed","reason":"X","retryable":false}`)
	if got := other.Verify(7); got.Reason != fencing.ReasonTokenMismatch || got.Retryable != nil {
		t.Errorf("%+v", got)
	}
}

func TestReferencesToResults(t *testing.T) {
	tests := map[string]struct {
		ref  fencing.ResultRef
		want string // part of the problem; empty: none
	}{
		"s3":                     {fencing.ResultRef{"s3://bucket/key", digest, 7}, ""},
		"nothing in it":          {fencing.ResultRef{"https://example.com/x", digest, 0}, ""},
		"the longest":            {fencing.ResultRef{"x:" + strings.Repeat("y", fencing.MaxURIBytes-2), digest, 0}, ""},
		"too long":               {fencing.ResultRef{"x:" + strings.Repeat("y", fencing.MaxURIBytes-1), digest, 0}, "2049 bytes, allowed are 2048"},
		"no scheme":              {fencing.ResultRef{"/tmp/x", digest, 0}, "scheme"},
		"with a space":           {fencing.ResultRef{"a:b c", digest, 0}, "printable"},
		"another algorithm":      {fencing.ResultRef{"a:b", "md5:0123456789abcdef0123456789abcdef", 0}, "digest"},
		"a short digest":         {fencing.ResultRef{"a:b", digest[:70], 0}, "digest"},
		"an upper-case digest":   {fencing.ResultRef{"a:b", strings.ToUpper(digest), 0}, "digest"},
		"a digest and some more": {fencing.ResultRef{"a:b", digest + "\n", 0}, "digest"},
		"below nothing":          {fencing.ResultRef{"a:b", digest, -1}, "sizeBytes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := tc.ref.Problem()
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			verified := fencing.Submission{Token: 1, Outcome: fencing.Succeeded, ResultRef: &tc.ref}.Verify(1)
			if (verified.Outcome == fencing.Succeeded) != (tc.want == "") || (tc.want != "" && verified.Reason != fencing.ReasonResultInvalid) {
				t.Errorf("verified as %+v", verified)
			}
		})
	}
	both := fencing.Submission{Token: 1, Outcome: fencing.Succeeded, Result: new("r"), ResultRef: &fencing.ResultRef{"a:b", digest, 1}}
	if got := both.Verify(1); got.Outcome != fencing.Failed || got.Reason != fencing.ReasonResultInvalid {
		t.Errorf("two results: %+v", got)
	}
}

func TestNotesTravelWithTheRenewal(t *testing.T) {
	claimed := after(t, grant("a", 1), fencing.ClaimPatch("a", mine, start))
	progress := fencing.Progress{Current: 3, Total: 9, Message: `half of "it" <done>`}
	noted := after(t, claimed, fencing.Note{Progress: new(progress.Encode()), Checkpoint: new("row 41")}.RenewPatch("a", mine, start.Add(time.Second)))
	is := read(noted)
	if is.Checkpoint != "row 41" || is.Progress == nil || *is.Progress != progress {
		t.Errorf("checkpoint %q, progress %+v", is.Checkpoint, is.Progress)
	}
	if heard := fencing.HeardIn(noted); heard.Checkpoint != "row 41" || heard.Stop != nil {
		t.Errorf("the agent hears %+v", heard)
	}
	bare := after(t, noted, fencing.RenewPatch("a", mine, start.Add(2*time.Second)))
	if is := read(bare); is.Checkpoint != "row 41" || is.Progress == nil {
		t.Errorf("a renewal that says nothing changes what was said: %q, %+v", is.Checkpoint, is.Progress)
	}
	last := after(t, bare, fencing.Note{Checkpoint: new("")}.SubmitPatch("a", mine, submission(t, "r")))
	if is := read(last); is.Checkpoint != "" || is.State() != fencing.Submitted {
		t.Errorf("taken back with the submission: %q, %s", is.Checkpoint, is.State())
	}
}

func TestProgressIsBounded(t *testing.T) {
	tests := map[string]struct {
		progress fencing.Progress
		want     string
	}{
		"all of it":           {fencing.Progress{1, 2, strings.Repeat("ü", 128)}, ""},
		"above its estimate":  {fencing.Progress{3, 2, ""}, ""},
		"below nothing":       {fencing.Progress{-1, 2, ""}, "current"},
		"of less than none":   {fencing.Progress{1, -2, ""}, "total"},
		"too long":            {fencing.Progress{1, 2, strings.Repeat("x", 257)}, "257 bytes"},
		"too long once coded": {fencing.Progress{1, 2, strings.Repeat("\x01", 256)}, "once encoded"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.progress.Problem(); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if tc.want == "" {
				if got := fencing.ParseProgress(tc.progress.Encode()); got == nil || *got != tc.progress {
					t.Errorf("read as %+v", got)
				}
			}
		})
	}
	for name, forged := range map[string]string{"nothing": "", "no JSON": "x", "a list": "[]", "negative": `{"current":-1}`, "huge": `{"current":1,"message":"` + strings.Repeat("x", 5000) + `"}`} {
		if got := fencing.ParseProgress(forged); got != nil {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
	if got := fencing.ParseProgress(`{"current":1,"message":"` + strings.Repeat("x", 2000) + `"}`); len(got.Message) != fencing.MaxProgressMessageBytes {
		t.Errorf("%d bytes", len(got.Message))
	}
	if fencing.ParseCheckpoint(strings.Repeat("x", 1025)) != "" || fencing.ParseCheckpoint(strings.Repeat("x", 1024)) == "" {
		t.Error("checkpoints have at most 1024 bytes")
	}
}
