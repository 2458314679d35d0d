package guard_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/leasehold-io/leasehold/worker/guard"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]guard.Token{
		"1": 1, "17592186044417": 1<<44 + 1, "9223372036854775807": math.MaxInt64,
		"": 0, "0": 0, "-1": 0, "+1": 0, "01": 0, " 1": 0, "1.0": 0, "0x10": 0, "9223372036854775808": 0,
	} {
		got, err := guard.Parse(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("Parse(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		resource string
		token    guard.Token
		valid    bool
	}{
		"plain":     {"account/42", 1, true},
		"longest":   {strings.Repeat("a", guard.MaxResourceBytes), math.MaxInt64, true},
		"zero":      {"account/42", 0, false},
		"negative":  {"account/42", -1, false},
		"no name":   {"", 1, false},
		"too long":  {strings.Repeat("a", guard.MaxResourceBytes+1), 1, false},
		"not UTF-8": {"a\xff", 1, false},
		"NUL":       {"a\x00b", 1, false},
	} {
		if err := guard.Validate(c.resource, c.token); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnswersAreToldApart(t *testing.T) {
	stale := fmt.Errorf("pay: %w", &guard.StaleError{Resource: "account/42", Token: 1, Mark: 2})
	uncertain := fmt.Errorf("pay: %w", &guard.UncertainError{Resource: "account/42", Token: 1, Err: io.ErrUnexpectedEOF})
	if !guard.IsStale(stale) || guard.IsStale(uncertain) || guard.IsStale(nil) {
		t.Error("IsStale is wrong")
	}
	if guard.IsUncertain(stale) || !guard.IsUncertain(uncertain) || guard.IsUncertain(nil) {
		t.Error("IsUncertain is wrong")
	}
	if !errors.Is(uncertain, io.ErrUnexpectedEOF) {
		t.Error("the cause is lost")
	}
}

func ExampleFromEnv() {
	_ = os.Setenv(guard.TokenEnv, "17592186044423") // the agent does this
	token, err := guard.FromEnv()
	fmt.Println(token, err)
	// Output: 17592186044423 <nil>
}

func ExampleIsStale() {
	err := error(&guard.StaleError{Resource: "account/42", Token: 5, Mark: 7}) // what a guard returned
	if guard.IsStale(err) {
		fmt.Println("somebody newer is at work, this attempt ends:", err)
	}
	// Output: somebody newer is at work, this attempt ends: stale: token 5 may not write to "account/42", which has seen token 7
}
