package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

// deafTransport takes the conditions off a request and signs it again: to the store it is a client that never heard of conditions, to
// the guard a store that ignores them.
type deafTransport struct{}

func (deafTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	again, err := http.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(body)
	hash := hex.EncodeToString(digest[:])
	again.Header.Set("X-Amz-Content-Sha256", hash)
	account := aws.Credentials{AccessKeyID: teststores.S3AccessKey, SecretAccessKey: teststores.S3SecretKey}
	if err := v4.NewSigner().SignHTTP(context.Background(), account, again, hash, "s3", "us-east-1", time.Now()); err != nil {
		return nil, err
	}
	return http.DefaultTransport.RoundTrip(again)
}
