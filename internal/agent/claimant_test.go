package agent

import (
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

var wallEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func second(n float64) Boot { return Boot(n * float64(time.Second)) }

func TestClaimantToleratesDenialsForAWhile(t *testing.T) {
	denied := Reply{Answer: fencing.Refused, Code: 403}
	c := claimant{form: claimFirst}
	for at := second(100); at < second(110); at += second(1) {
		if got := c.hear(denied, at); got != claimOpen || c.form != claimFirst {
			t.Fatalf("at %d: %s, form %s", at, got, c.form)
		}
	}
	if got := c.hear(denied, second(110)); got != claimLost {
		t.Errorf("after ten seconds: %s", got)
	}
}

func TestClaimantVerdicts(t *testing.T) {
	ok := Reply{Answer: fencing.Accepted, Code: 200}
	refused := Reply{Answer: fencing.Refused, Code: 422}
	gone := Reply{Answer: fencing.Refused, Code: 404}
	lost := Reply{Answer: fencing.Unavailable}
	invalid := Reply{Answer: fencing.Invalid, Code: 400}
	tests := map[string]struct {
		replies []Reply
		want    claimVerdict
		form    claimForm // of the next try
	}{
		"accepted":                           {[]Reply{ok}, claimHeld, claimFirst},
		"refused":                            {[]Reply{refused}, claimLost, claimFirst},
		"gone":                               {[]Reply{gone}, claimLost, claimFirst},
		"malformed":                          {[]Reply{invalid}, claimLost, claimFirst},
		"lost":                               {[]Reply{lost}, claimOpen, claimRepeat},
		"lost, then mine":                    {[]Reply{lost, ok}, claimHeld, claimRepeat},
		"lost, not mine yet":                 {[]Reply{lost, refused}, claimOpen, claimFirst},
		"lost, taken, whose is not known":    {[]Reply{lost, refused, refused}, claimOpen, claimRepeat},
		"lost, taken, mine after all":        {[]Reply{lost, refused, refused, ok}, claimHeld, claimRepeat},
		"lost, taken, not mine":              {[]Reply{lost, refused, refused, refused}, claimLost, claimRepeat},
		"lost, gone":                         {[]Reply{lost, gone, gone, gone}, claimLost, claimRepeat},
		"lost, taken, lost again":            {[]Reply{lost, refused, refused, lost}, claimOpen, claimRepeat},
		"lost, taken, lost again, not mine":  {[]Reply{lost, refused, refused, lost, refused}, claimLost, claimRepeat},
		"lost twice":                         {[]Reply{lost, lost}, claimOpen, claimFirst},
		"lost twice, then refused":           {[]Reply{lost, lost, refused}, claimOpen, claimRepeat},
		"lost twice, then refused both ways": {[]Reply{lost, lost, refused, refused}, claimLost, claimRepeat},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := claimant{form: claimFirst}
			var got claimVerdict
			for i, reply := range tc.replies {
				if got = c.hear(reply, 0); got != claimOpen && i < len(tc.replies)-1 {
					t.Fatalf("%s after %d of %d answers", got, i+1, len(tc.replies))
				}
			}
			if got != tc.want || c.form != tc.form {
				t.Errorf("%s, form %s; want %s, %s", got, c.form, tc.want, tc.form)
			}
		})
	}
}
