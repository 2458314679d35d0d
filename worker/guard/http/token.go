package httpguard

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/leasehold-io/leasehold/worker/guard"
)

const (
	// TokenHeader carries the signed token.
	TokenHeader = "Fencing-Token"
	// MaxLifetime bounds how far ahead a token may expire.
	MaxLifetime = time.Hour
	// minSecret is the size of the hash.
	minSecret = 32
)

// Key signs tokens. Several keys may be valid at once, so that they can be changed.
type Key struct {
	ID     string // goes into the token
	Secret []byte // at least 32 random bytes
	Prefix string // of the resources that it is good for; empty: all
}

type claims struct {
	Token    string `json:"tok"` // text, because a JSON number is not exact in every language
	Resource string `json:"res"`
	jwt.RegisteredClaims
}

// Sign makes the value of the header.
func Sign(key Key, resource string, token guard.Token, expires time.Time) (string, error) {
	if err := errors.Join(guard.Validate(resource, token), key.check()); err != nil {
		return "", err
	}
	unsigned := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{Token: token.String(), Resource: resource,
		RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(expires)}})
	unsigned.Header["kid"] = key.ID
	return unsigned.SignedString(key.Secret)
}

func (k Key) check() error {
	if k.ID == "" || len(k.Secret) < minSecret {
		return fmt.Errorf("a key needs an ID and a secret of at least %d bytes", minSecret)
	}
	return nil
}

// verify reads the header and returns the token if it is signed, for this resource, and good now.
func verify(keys []Key, header, resource string, now time.Time) (guard.Token, error) {
	var c claims
	_, err := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return now }),
	).ParseWithClaims(header, &c, func(t *jwt.Token) (any, error) {
		for _, key := range keys {
			if t.Header["kid"] == key.ID && strings.HasPrefix(resource, key.Prefix) {
				return key.Secret, nil
			}
		}
		return nil, errors.New("no key of this ID is good for this resource")
	})
	switch {
	case err != nil:
		return 0, err
	case c.Resource != resource:
		return 0, errors.New("the token is for another resource")
	case c.ExpiresAt.After(now.Add(MaxLifetime)):
		return 0, fmt.Errorf("the token is good for more than %v", MaxLifetime)
	}
	return guard.Parse(c.Token)
}
