package holder

import (
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

func second(n float64) Boot { return Boot(n * float64(time.Second)) }

func TestClaimantToleratesDenialsForAWhile(t *testing.T) {
	c := NewClaimant()
	for at := second(100); at < second(110); at += second(1) {
		if got := c.Hear(fencing.Refused, true, at); got != ClaimOpen || c.Form() != ClaimFirst {
			t.Fatalf("at %d: %s, form %s", at, got, c.Form())
		}
	}
	if got := c.Hear(fencing.Refused, true, second(110)); got != ClaimLost {
		t.Errorf("after ten seconds: %s", got)
	}
}

func TestClaimantVerdicts(t *testing.T) {
	const ok, refused, lost, invalid = fencing.Accepted, fencing.Refused, fencing.Unavailable, fencing.Invalid
	tests := map[string]struct {
		answers []fencing.Answer
		want    ClaimVerdict
		form    ClaimForm // of the next try
	}{
		"accepted":                           {[]fencing.Answer{ok}, ClaimHeld, ClaimFirst},
		"refused":                            {[]fencing.Answer{refused}, ClaimLost, ClaimFirst},
		"malformed":                          {[]fencing.Answer{invalid}, ClaimLost, ClaimFirst},
		"lost":                               {[]fencing.Answer{lost}, ClaimOpen, ClaimRepeat},
		"lost, then mine":                    {[]fencing.Answer{lost, ok}, ClaimHeld, ClaimRepeat},
		"lost, not mine yet":                 {[]fencing.Answer{lost, refused}, ClaimOpen, ClaimFirst},
		"lost, taken, whose is not known":    {[]fencing.Answer{lost, refused, refused}, ClaimOpen, ClaimRepeat},
		"lost, taken, mine after all":        {[]fencing.Answer{lost, refused, refused, ok}, ClaimHeld, ClaimRepeat},
		"lost, taken or gone, not mine":      {[]fencing.Answer{lost, refused, refused, refused}, ClaimLost, ClaimRepeat},
		"lost, taken, lost again":            {[]fencing.Answer{lost, refused, refused, lost}, ClaimOpen, ClaimRepeat},
		"lost, taken, lost again, not mine":  {[]fencing.Answer{lost, refused, refused, lost, refused}, ClaimLost, ClaimRepeat},
		"lost twice":                         {[]fencing.Answer{lost, lost}, ClaimOpen, ClaimFirst},
		"lost twice, then refused":           {[]fencing.Answer{lost, lost, refused}, ClaimOpen, ClaimRepeat},
		"lost twice, then refused both ways": {[]fencing.Answer{lost, lost, refused, refused}, ClaimLost, ClaimRepeat},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := NewClaimant()
			var got ClaimVerdict
			for i, answer := range tc.answers {
				if got = c.Hear(answer, false, 0); got != ClaimOpen && i < len(tc.answers)-1 {
					t.Fatalf("%s after %d of %d answers", got, i+1, len(tc.answers))
				}
			}
			if got != tc.want || c.Form() != tc.form {
				t.Errorf("%s, form %s; want %s, %s", got, c.Form(), tc.want, tc.form)
			}
		})
	}
}
