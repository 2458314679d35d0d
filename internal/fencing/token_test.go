package fencing

import (
	"testing"

	"pgregory.net/rapid"
)

func TestNewToken(t *testing.T) {
	tests := map[string]struct {
		epoch   int64
		rv      string
		want    Token
		wantErr bool
	}{
		"first epoch":               {epoch: 1, rv: "1", want: 1<<44 + 1},
		"largest resourceVersion":   {epoch: 1, rv: "17592186044415", want: 1<<45 - 1},
		"largest of all":            {epoch: MaxEpoch, rv: "17592186044415", want: 1<<63 - 1},
		"epoch zero":                {epoch: 0, rv: "1", wantErr: true},
		"epoch negative":            {epoch: -1, rv: "1", wantErr: true},
		"epoch too large":           {epoch: MaxEpoch + 1, rv: "1", wantErr: true},
		"resourceVersion zero":      {epoch: 1, rv: "0", wantErr: true},
		"resourceVersion negative":  {epoch: 1, rv: "-1", wantErr: true},
		"resourceVersion too large": {epoch: 1, rv: "17592186044416", wantErr: true},
		"resourceVersion overflows": {epoch: 1, rv: "99999999999999999999", wantErr: true},
		"resourceVersion no number": {epoch: 1, rv: "abc", wantErr: true},
		"resourceVersion absent":    {epoch: 1, rv: "", wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := NewToken(tc.epoch, tc.rv)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("NewToken(%d, %q) = %d, %v; want %d, error %t", tc.epoch, tc.rv, got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestTokensRiseWithEpochThenResourceVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		epochs := rapid.Int64Range(1, MaxEpoch)
		revisions := rapid.Int64Range(1, maxRevision)
		e1, e2 := epochs.Draw(t, "e1"), epochs.Draw(t, "e2")
		r1, r2 := revisions.Draw(t, "r1"), revisions.Draw(t, "r2")
		a, errA := NewToken(e1, decimal(r1))
		b, errB := NewToken(e2, decimal(r2))
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if want := e1 < e2 || (e1 == e2 && r1 < r2); (a < b) != want {
			t.Fatalf("%d < %d is %t, want %t", a, b, a < b, want)
		}
		if a.Epoch() != e1 || a < 1 {
			t.Fatalf("token %d of epoch %d says epoch %d", a, e1, a.Epoch())
		}
	})
}
