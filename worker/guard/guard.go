package guard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// TokenEnv is the environment variable in which a worker finds its token.
const TokenEnv = "LEASEHOLD_FENCING_TOKEN"

// MaxResourceBytes bounds the name of a resource.
const MaxResourceBytes = 512

// Token is a fencing token. Valid ones are above zero.
type Token int64

// FromEnv reads the token of this attempt.
func FromEnv() (Token, error) {
	value, found := os.LookupEnv(TokenEnv)
	if !found {
		return 0, fmt.Errorf("%s is not set: this process was not started by the agent", TokenEnv)
	}
	return Parse(value)
}

// Parse reads a token as [Token.String] writes it.
func Parse(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fencing token: %w", err)
	}
	t := Token(n)
	if n <= 0 || t.String() != s {
		return 0, fmt.Errorf("fencing token %q is not a decimal number above zero", s)
	}
	return t, nil
}

// String is the token as a decimal number.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Validate is called by every guard before it talks to its store.
func Validate(resource string, token Token) error {
	switch {
	case token <= 0:
		return fmt.Errorf("fencing token %d is not above zero", token)
	case resource == "":
		return errors.New("the guarded resource has no name")
	case len(resource) > MaxResourceBytes:
		return fmt.Errorf("the name of the guarded resource has %d bytes, at most %d are allowed", len(resource), MaxResourceBytes)
	case !utf8.ValidString(resource) || strings.ContainsRune(resource, 0):
		return errors.New("the name of the guarded resource is not UTF-8 text")
	}
	return nil
}

// StaleError says that a higher token has written to the resource, and that this write did not happen.
type StaleError struct {
	Resource string
	Token    Token // of the refused write
	Mark     Token // the highest token seen
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("stale: token %d may not write to %q, which has seen token %d", e.Token, e.Resource, e.Mark)
}

// UncertainError says that the store did not tell whether the write happened.
type UncertainError struct {
	Resource string
	Token    Token
	Err      error // what came instead of an answer
}

func (e *UncertainError) Error() string {
	return fmt.Sprintf("uncertain: the write of token %d to %q got no answer: %v", e.Token, e.Resource, e.Err)
}

// Unwrap returns what came instead of an answer.
func (e *UncertainError) Unwrap() error { return e.Err }

// IsStale is true for an error that holds a [StaleError].
func IsStale(err error) bool {
	_, is := errors.AsType[*StaleError](err)
	return is
}

// IsUncertain is true for an error that holds an [UncertainError].
func IsUncertain(err error) bool {
	_, is := errors.AsType[*UncertainError](err)
	return is
}
