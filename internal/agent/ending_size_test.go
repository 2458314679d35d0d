package agent

import (
	"strings"
	"testing"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// TestCase31AResultFitsToTheLastByteOfItsEncoding: what JSON escapes counts as it is encoded, and a refusal names all four numbers.
func TestCase31AResultFitsToTheLastByteOfItsEncoding(t *testing.T) {
	of := func(content string) ending {
		return ending{Token: 7, Exit: &holder.Exit{}, Result: result{Written: true, Content: content}}
	}
	room := fencing.MaxSubmissionBytes - of("").encodedSize()
	tests := map[string]struct{ unit, filler string }{
		"quotes":             {`"`, "x"}, // two bytes each
		"backslashes":        {`\`, "é"},
		"line ends":          {"\n", "<&>"},
		"control characters": {"\x01", "\U0001F600"}, // six
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			grown := of(test.unit).encodedSize() - of("").encodedSize()
			units := (room-fencing.MaxResultBytes)/(grown-1) + 100 // enough for the encoding to be the limit that is reached
			content := strings.Repeat(test.unit, units)
			content += strings.Repeat(test.filler, (room-units*grown)/len(test.filler))
			content += strings.Repeat("x", room-units*grown-(len(content)-units))
			if len(content) > fencing.MaxResultBytes {
				t.Fatalf("the test tests the other limit: %d bytes", len(content))
			}
			s := of(content).submission()
			if encoded, err := s.Encode(); err != nil || s.Outcome != fencing.Succeeded || *s.Result != content || len(encoded) != fencing.MaxSubmissionBytes {
				t.Errorf("%s, %d bytes encoded, %v", s.Outcome, len(encoded), err)
			}
			s = of(content + "x").submission()
			want := fencing.ResultTooLarge(len(content)+1, fencing.MaxSubmissionBytes+1)
			if s.Outcome != fencing.Failed || s.Reason != fencing.ReasonResultTooLarge || s.Message != want || s.Result != nil ||
				!strings.Contains(want, "49153 once encoded") || !strings.Contains(want, "allowed are 32768") || !strings.HasSuffix(want, "allowed are 49152") {
				t.Errorf("%s %s: %s, want %s", s.Outcome, s.Reason, s.Message, want)
			}
		})
	}
}
