package fencing

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestEncodeIsCanonical(t *testing.T) {
	s := Submission{Token: 7, Outcome: Succeeded, Reason: ReasonCompleted, ExitCode: new(int32(0)), Result: new(`<a href="x">&</a>`)}
	const want = `{"token":7,"outcome":"Succeeded","reason":"Completed","exitCode":0,"result":"<a href=\"x\">&</a>"}`
	for range 2 {
		if got, err := s.Encode(); err != nil || string(got) != want {
			t.Errorf("Encode() = %s, %v; want %s", got, err, want)
		}
	}
}

func TestParseSubmission(t *testing.T) {
	long := strings.Repeat("x", 2*MaxMessageBytes)
	tests := map[string]struct {
		raw  string
		want Submission
	}{
		"a success": {`{"token":7,"outcome":"Succeeded","exitCode":0,"result":""}`,
			Submission{Token: 7, Outcome: Succeeded, ExitCode: new(int32(0)), Result: new("")}},
		"no result": {`{"token":7,"outcome":"Failed","reason":"NonZeroExit","exitCode":3}`,
			Submission{Token: 7, Outcome: Failed, Reason: ReasonNonZeroExit, ExitCode: new(int32(3))}},
		"a field of a later version": {`{"token":7,"outcome":"Fenced","new":1}`, Submission{Token: 7, Outcome: Fenced}},
		"bounded": {`{"token":7,"outcome":"Failed","reason":"` + long + `","message":"` + long + `"}`,
			Submission{Token: 7, Outcome: Failed, Reason: Truncate(long, 64), Message: Truncate(long, MaxMessageBytes)}},
		"no JSON":       {`done`, Submission{Outcome: Failed, Reason: ReasonMalformedSubmission, Message: "the submission is no valid JSON"}},
		"cut off":       {`{"token":7,"outcome":"Succ`, Submission{Outcome: Failed, Reason: ReasonMalformedSubmission, Message: "the submission is no valid JSON"}},
		"token as text": {`{"token":"7","outcome":"Succeeded"}`, Submission{Outcome: Failed, Reason: ReasonMalformedSubmission, Message: "the submission is no valid JSON"}},
		"unknown outcome": {`{"token":7,"outcome":"Won"}`,
			Submission{Token: 7, Outcome: Failed, Reason: ReasonMalformedSubmission, Message: `unknown outcome "Won"`}},
		"no outcome": {`{"token":7}`,
			Submission{Token: 7, Outcome: Failed, Reason: ReasonMalformedSubmission, Message: `unknown outcome ""`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ParseSubmission(tc.raw)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	fits, large := strings.Repeat("x", MaxResultBytes), strings.Repeat("x", MaxResultBytes+1)
	tests := map[string]struct {
		in         Submission
		want       Outcome
		wantReason string
	}{
		"its own token":       {Submission{Token: 7, Outcome: Succeeded, Reason: ReasonCompleted}, Succeeded, ReasonCompleted},
		"result at the limit": {Submission{Token: 7, Outcome: Succeeded, Reason: ReasonCompleted, Result: &fits}, Succeeded, ReasonCompleted},
		"result above it":     {Submission{Token: 7, Outcome: Succeeded, Result: &large}, Failed, ReasonResultTooLarge},
		"another token":       {Submission{Token: 6, Outcome: Succeeded}, Failed, ReasonTokenMismatch},
		"no token":            {Submission{Outcome: Succeeded}, Failed, ReasonTokenMismatch},
		"a failure too":       {Submission{Token: 8, Outcome: Failed, Reason: ReasonNonZeroExit}, Failed, ReasonTokenMismatch},
		"claims to be unreadable, and to succeed": {Submission{Token: 8, Outcome: Succeeded, Reason: ReasonMalformedSubmission}, Failed, ReasonTokenMismatch},
		"unreadable": {ParseSubmission("x"), Failed, ReasonMalformedSubmission},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := tc.in.Verify(7)
			if got.Outcome != tc.want || got.Reason != tc.wantReason {
				t.Errorf("Verify() = %s/%s, want %s/%s", got.Outcome, got.Reason, tc.want, tc.wantReason)
			}
			if got.Outcome == Failed && got.Result != nil {
				t.Error("what failed verification still has a result")
			}
		})
	}
}

// TestNothingUnverifiedSucceeds: whatever stands on the Lease, a success names the term's token and keeps to the limits.
func TestNothingUnverifiedSucceeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Submission{
			Token:   Token(rapid.Int64Range(0, 3).Draw(t, "token")),
			Outcome: Outcome(rapid.SampledFrom([]string{"Succeeded", "Failed", "Interrupted", "Fenced", "Other", ""}).Draw(t, "outcome")),
			Reason:  rapid.OneOf(rapid.Just(ReasonMalformedSubmission), rapid.StringN(0, 100, -1)).Draw(t, "reason"),
			Message: rapid.StringN(0, 2000, -1).Draw(t, "message"),
		}
		if rapid.Bool().Draw(t, "with result") {
			in.Result = new(rapid.StringN(0, 100, -1).Draw(t, "result"))
		}
		raw, err := in.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got := ParseSubmission(string(raw)).Verify(2)
		if got.Outcome == Succeeded && (in.Token != 2 || in.Outcome != Succeeded) {
			t.Fatalf("%s became a success", raw)
		}
		if !isOutcome(got.Outcome) || len(got.Message) > MaxMessageBytes || len(got.Reason) > maxReasonBytes {
			t.Fatalf("unbounded: %+v", got)
		}
		if got.Outcome == Succeeded && in.Result != nil && *got.Result != *in.Result {
			t.Fatalf("result %q became %q", *in.Result, *got.Result)
		}
	})
}

func TestTruncate(t *testing.T) {
	tests := map[string]struct {
		in    string
		limit int
		want  string
	}{
		"short":           {"abc", 5, "abc"},
		"exact":           {"abcde", 5, "abcde"},
		"long":            {"abcdef", 5, "ab..."},
		"cut inside a ü":  {"aüüüü", 5, "a..."},
		"only the mark":   {"abcdef", 3, "..."},
		"below the mark":  {"abcdef", 2, ".."},
		"nothing at all":  {"abcdef", 0, ""},
		"cut inside a 日本": {"日本語", 8, "日..."},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Truncate(tc.in, tc.limit); got != tc.want {
				t.Errorf("Truncate(%q, %d) = %q, want %q", tc.in, tc.limit, got, tc.want)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		in, limit := rapid.String().Draw(t, "in"), rapid.IntRange(0, 40).Draw(t, "limit")
		if got := Truncate(in, limit); len(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("Truncate(%q, %d) = %q", in, limit, got)
		}
	})
}
