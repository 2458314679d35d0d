package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/leasehold-io/leasehold/worker/guard"
)

const (
	// maxBody bounds what is read into memory, and so what can be guarded.
	maxBody = 64 << 20
	// firstPause and maxPause bound the random pause after a lost race.
	firstPause = 5 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// Guard writes objects of one bucket.
type Guard struct {
	client *s3.Client
	bucket string
}

// Object is what a key holds.
type Object struct {
	Mark guard.Token // 0 if there is no object
	Body []byte
	etag *string
}

// New makes a guard. Whatever retries the client is configured with, a conditional write is sent once.
func New(client *s3.Client, bucket string) *Guard { return &Guard{client: client, bucket: bucket} }

// Put replaces the object's body if no higher token has written to the key.
func (g *Guard) Put(ctx context.Context, key string, token guard.Token, body []byte) error {
	return g.Update(ctx, key, token, func([]byte) ([]byte, error) { return body, nil })
}

// Update computes the object's new body from the old one (nil if there is none) and writes it if no higher token has written to the key
// and nobody has written in between; otherwise it begins again, so change may be called several times. An error of change
// ends it with nothing written.
func (g *Guard) Update(ctx context.Context, key string, token guard.Token, change func(old []byte) ([]byte, error)) error {
	if err := guard.Validate(key, token); err != nil {
		return err
	}
	isThere := false // although it cannot be read
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		old, err := g.Get(ctx, key)
		isHidden := isForbidden(err)
		if err != nil && (!isHidden || isThere) {
			return err
		}
		if token < old.Mark {
			return &guard.StaleError{Resource: key, Token: token, Mark: old.Mark}
		}
		body, err := change(old.Body)
		if err != nil {
			return err
		}
		if len(body) > maxBody {
			return fmt.Errorf("%d bytes are too many for a guarded object, at most %d are allowed", len(body), maxBody)
		}
		overtaken, err := g.replace(ctx, key, token, old.etag, body) // what is hidden is written only if it is not there
		if !overtaken {
			return err
		}
		isThere = isHidden
		select {
		case <-ctx.Done():
			return fmt.Errorf("other writers were faster until the end: %w", ctx.Err())
		case <-time.After(mathrand.N(pause)):
		}
	}
}

// Get reads the object. A key without one gives the zero Object, if the store says so: to a role without s3:ListBucket S3 says 403.
func (g *Guard) Get(ctx context.Context, key string) (Object, error) {
	answer, err := g.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &g.bucket, Key: &key})
	if _, none := errors.AsType[*types.NoSuchKey](err); none {
		return Object{}, nil
	}
	if isForbidden(err) {
		return Object{}, fmt.Errorf("object %q may not be read (s3:GetObject), or there is none, which S3 says only to who has s3:ListBucket: %w", key, err)
	}
	if err != nil {
		return Object{}, err
	}
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+maxHeader+1))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return Object{}, err
	}
	mark, body, err := open(content)
	if err != nil {
		return Object{}, fmt.Errorf("object %q: %w", key, err)
	}
	if answer.ETag == nil {
		return Object{}, fmt.Errorf("object %q has no ETag", key)
	}
	return Object{Mark: mark, Body: body, etag: answer.ETag}, nil
}

// Verify finds out, with an object that it makes and deletes, whether the store honours the conditions. A store that ignores them
// accepts every write, and guards nothing.
func (g *Guard) Verify(ctx context.Context, key string) (err error) {
	if err := g.Put(ctx, key, 1, []byte("made by Verify")); err != nil {
		return err
	}
	defer func() {
		_, deleteErr := g.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &g.bucket, Key: &key})
		err = errors.Join(err, deleteErr)
	}()
	for condition, etag := range map[string]*string{"If-None-Match": nil, "If-Match": aws.String(`"00000000000000000000000000000000"`)} {
		overtaken, err := g.replace(ctx, key, 1, etag, nil)
		if err != nil {
			return err
		}
		if !overtaken {
			return fmt.Errorf("this store ignores %s, so it cannot be guarded", condition)
		}
	}
	return nil
}

// replace writes the object if it is still the one with the ETag, or still is not there. It reports whether somebody was faster.
func (g *Guard) replace(ctx context.Context, key string, token guard.Token, etag *string, body []byte) (overtaken bool, err error) {
	put := &s3.PutObjectInput{Bucket: &g.bucket, Key: &key, Body: bytes.NewReader(seal(token, rand.Text(), body)), IfMatch: etag}
	if etag == nil {
		put.IfNoneMatch = aws.String("*")
	}
	// A repeat would fail the condition that the first try has met.
	_, err = g.client.PutObject(ctx, put, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	if err == nil {
		return false, nil
	}
	answer, answered := errors.AsType[*smithyhttp.ResponseError](err)
	if !answered {
		return false, &guard.UncertainError{Resource: key, Token: token, Err: err}
	}
	switch status := answer.HTTPStatusCode(); {
	case status == http.StatusPreconditionFailed, status == http.StatusConflict && isRace(err), status == http.StatusNotFound && etag != nil && isGone(err):
		return true, nil
	case status >= 400 && status < 500:
		return false, err
	default:
		return false, &guard.UncertainError{Resource: key, Token: token, Err: err}
	}
}

// isRace is S3's word for two conditional writes at once.
func isRace(err error) bool {
	answer, is := errors.AsType[smithy.APIError](err)
	return is && (answer.ErrorCode() == "ConditionalRequestConflict" || answer.ErrorCode() == "OperationAborted")
}

// isGone says that the object was deleted after it was read.
func isGone(err error) bool {
	answer, is := errors.AsType[smithy.APIError](err)
	return is && answer.ErrorCode() == "NoSuchKey"
}

// isForbidden is also S3's answer to a role without s3:ListBucket that asks for an object that is not there.
func isForbidden(err error) bool {
	answer, is := errors.AsType[smithy.APIError](err)
	return is && answer.ErrorCode() == "AccessDenied"
}
