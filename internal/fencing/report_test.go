package fencing

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestReportEncode(t *testing.T) {
	r := Report{Token: 7, Outcome: Succeeded, Reason: ReasonCompleted, Delivery: DeliveryRefused, Message: "<m>"}
	const want = `{"token":7,"outcome":"Succeeded","reason":"Completed","submission":"Refused","message":"<m>"}`
	if got := string(r.Encode()); got != want {
		t.Errorf("Encode() = %s, want %s", got, want)
	}
}

func TestParseReport(t *testing.T) {
	tests := map[string]struct {
		in     string
		want   Report
		wantOK bool
	}{
		"complete": {`{"token":7,"outcome":"Fenced","reason":"RenewalFailed","submission":"Refused","message":"m"}`,
			Report{Token: 7, Outcome: Fenced, Reason: ReasonRenewalFailed, Delivery: DeliveryRefused, Message: "m"}, true},
		"least":            {`{"token":7,"outcome":"Failed","submission":"Unknown"}`, Report{Token: 7, Outcome: Failed, Delivery: DeliveryUnknown}, true},
		"a later version":  {`{"token":7,"outcome":"Failed","submission":"None","x":1}`, Report{Token: 7, Outcome: Failed, Delivery: DeliveryNone}, true},
		"empty":            {"", Report{}, false},
		"a command's own":  {"Traceback (most recent call last)", Report{}, false},
		"JSON of its own":  {`{"error":"x"}`, Report{}, false},
		"cut":              {`{"token":7,"outcome":"Fenced","rea`, Report{}, false},
		"no token":         {`{"outcome":"Failed","submission":"Unknown"}`, Report{}, false},
		"negative token":   {`{"token":-1,"outcome":"Failed","submission":"Unknown"}`, Report{}, false},
		"unknown outcome":  {`{"token":7,"outcome":"Won","submission":"Unknown"}`, Report{}, false},
		"unknown delivery": {`{"token":7,"outcome":"Failed","submission":"Perhaps"}`, Report{}, false},
		"too long":         {`{"token":7,"outcome":"Failed","submission":"Unknown","message":"` + strings.Repeat("x", MaxReportBytes) + `"}`, Report{}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := ParseReport(tc.in)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.wantOK {
				t.Errorf("ok %t, want %t; -want +got:\n%s", ok, tc.wantOK, diff)
			}
		})
	}
}

func TestEveryReportFitsAndReturns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Report{
			Token:    Token(rapid.Int64Range(1, 1<<62).Draw(t, "token")),
			Outcome:  rapid.SampledFrom([]Outcome{Succeeded, Failed, Interrupted, Fenced}).Draw(t, "outcome"),
			Delivery: rapid.SampledFrom([]Delivery{DeliveryAccepted, DeliveryRefused, DeliveryUnknown, DeliveryNone}).Draw(t, "delivery"),
			Reason:   rapid.StringN(0, 200, -1).Draw(t, "reason"),
			Message:  strings.Repeat(rapid.StringN(0, 100, -1).Draw(t, "message"), rapid.IntRange(0, 50).Draw(t, "times")),
		}
		raw := in.Encode()
		if len(raw) > MaxReportBytes {
			t.Fatalf("%d bytes: %s", len(raw), raw)
		}
		got, ok := ParseReport(string(raw))
		if !ok || got.Token != in.Token || got.Outcome != in.Outcome || got.Delivery != in.Delivery {
			t.Fatalf("%s came back as %+v, %t", raw, got, ok)
		}
	})
}
