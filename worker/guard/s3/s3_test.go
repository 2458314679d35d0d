package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/conformance"
	guards3 "github.com/leasehold-io/leasehold/worker/guard/s3"
	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

func TestMain(m *testing.M) { os.Exit(teststores.Main(m, teststores.S3)) }

const bucket = "guarded"

func connect(endpoint string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(teststores.S3AccessKey, teststores.S3SecretKey, ""),
	})
}

// client makes the bucket if it is not there.
func client(ctx context.Context, endpoint string) (*s3.Client, error) {
	c := connect(endpoint)
	_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String(bucket)})
	if err != nil && strings.Contains(err.Error(), "BucketAlready") {
		err = nil
	}
	return c, err
}

func guardOf(t *testing.T) (*guards3.Guard, *s3.Client) {
	t.Helper()
	c, err := client(t.Context(), teststores.S3.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	return guards3.New(c, bucket), c
}

type register struct {
	*guards3.Guard
	client *s3.Client
	write  func(ctx context.Context, r register, key string, token guard.Token, value string) error
}

func (r register) Write(ctx context.Context, key string, token guard.Token, value string) error {
	return r.write(ctx, r, key, token, value)
}

func (r register) Read(ctx context.Context, key string) (conformance.State, error) {
	object, err := r.Get(ctx, key)
	return conformance.State{Value: string(object.Body), Mark: object.Mark}, err
}

func conditional(ctx context.Context, r register, key string, token guard.Token, value string) error {
	return r.Put(ctx, key, token, []byte(value))
}

// unconditional is what a guard must not be: it looks at the mark, and then writes whatever came between.
func unconditional(ctx context.Context, r register, key string, token guard.Token, value string) error {
	if err := guard.Validate(key, token); err != nil {
		return err
	}
	object, err := r.Get(ctx, key)
	if err != nil {
		return err
	}
	if token < object.Mark {
		return &guard.StaleError{Resource: key, Token: token, Mark: object.Mark}
	}
	body := strings.NewReader(fmt.Sprintf("leasehold-fence/1 %d none\n%s", token, value))
	_, err = r.client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(bucket), Key: &key, Body: body},
		func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return &guard.UncertainError{Resource: key, Token: token, Err: err}
	}
	return nil
}

func store(t *testing.T, write func(context.Context, register, string, guard.Token, string) error) conformance.Store {
	guardOf(t)
	return conformance.Store{
		Address: strings.TrimPrefix(teststores.S3.Address(t), "http://"),
		Open: func(_ testing.TB, address string) conformance.Register {
			c := connect("http://" + address)
			return register{guards3.New(c, bucket), c, write}
		},
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, store(t, conditional)) }

func TestConformanceFindsCheckThenWrite(t *testing.T) {
	if conformance.Inside() {
		conformance.Run(t, store(t, unconditional))
		return
	}
	teststores.S3.Address(t)
	conformance.MustFail(t, "Concurrent", "Linearizable", "Property")
}

// TestStoreHonoursConditions is the measurement on which the choice of the store rests: of 32 writers with one condition, one wins.
func TestStoreHonoursConditions(t *testing.T) {
	_, c := guardOf(t)
	const writers, rounds = 32, 10
	etag := ""
	for round := range rounds {
		key := "honours"
		put := func(i int) *s3.PutObjectInput {
			in := &s3.PutObjectInput{Bucket: aws.String(bucket), Key: &key, Body: strings.NewReader(fmt.Sprintf("%d-%d", round, i))}
			if round == 0 {
				in.IfNoneMatch = aws.String("*")
			} else {
				in.IfMatch = &etag
			}
			return in
		}
		var won atomic.Int32
		var winner atomic.Pointer[string]
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				answer, err := c.PutObject(t.Context(), put(i), func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
				if err == nil {
					won.Add(1)
					winner.Store(answer.ETag)
				} else if !strings.Contains(err.Error(), "PreconditionFailed") && !strings.Contains(err.Error(), "ConditionalRequestConflict") {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d of %d writers won", round, won.Load(), writers)
		}
		etag = *winner.Load()
	}
}

// TestEqualContentUnderAHigherToken: the hash of what a stale writer saw is the hash of what a newer one wrote, unless each write is
// unlike any other.
func TestEqualContentUnderAHigherToken(t *testing.T) {
	g, _ := guardOf(t)
	ctx := t.Context()
	const key = "equal-content"
	if err := g.Put(ctx, key, 1, []byte("same")); err != nil {
		t.Fatal(err)
	}
	calls := 0
	err := g.Update(ctx, key, 1, func(old []byte) ([]byte, error) {
		if calls++; calls == 1 { // between the stale writer's read and its write
			if err := g.Put(ctx, key, 1, old); err != nil {
				return nil, err
			}
			if err := g.Put(ctx, key, 2, old); err != nil {
				return nil, err
			}
		}
		return []byte("stale"), nil
	})
	if !guard.IsStale(err) || calls != 1 {
		t.Errorf("the stale write: %v, after %d calls", err, calls)
	}
	if object, err := g.Get(ctx, key); err != nil || object.Mark != 2 || string(object.Body) != "same" {
		t.Errorf("the object: %d %q, %v", object.Mark, object.Body, err)
	}
}

func TestBodiesAreKeptByteForByte(t *testing.T) {
	g, _ := guardOf(t)
	for name, body := range map[string][]byte{"empty": {}, "lines": []byte("a\nb\r\n\x00\xff"), "large": bytes.Repeat([]byte("0123456789"), 100_000)} {
		if err := g.Put(t.Context(), "body/"+name, 1, body); err != nil {
			t.Fatal(err)
		}
		if object, err := g.Get(t.Context(), "body/"+name); err != nil || !bytes.Equal(object.Body, body) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(object.Body), len(body), err)
		}
	}
}

func TestForeignObjectIsNotOverwritten(t *testing.T) {
	g, c := guardOf(t)
	key := "foreign"
	if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(bucket), Key: &key, Body: strings.NewReader("mine")}); err != nil {
		t.Fatal(err)
	}
	if err := g.Put(t.Context(), key, 1, nil); err == nil || guard.IsUncertain(err) {
		t.Errorf("an object that no guard wrote: %v", err)
	}
}

func TestVerify(t *testing.T) {
	g, _ := guardOf(t)
	if err := g.Verify(t.Context(), "verify"); err != nil {
		t.Errorf("the test's own store: %v", err)
	}
	endpoint := teststores.S3.Address(t)
	deaf := guards3.New(s3.New(s3.Options{BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(teststores.S3AccessKey, teststores.S3SecretKey, ""),
		HTTPClient:  &http.Client{Transport: deafTransport{}}}), bucket)
	if err := deaf.Verify(t.Context(), "verify-deaf"); err == nil || !strings.Contains(err.Error(), "ignores") {
		t.Errorf("a store that ignores conditions: %v", err)
	}
}

func TestErrorOfChangeWritesNothing(t *testing.T) {
	g, _ := guardOf(t)
	failure := errors.New("no money")
	err := g.Update(t.Context(), "unchanged", 4, func([]byte) ([]byte, error) { return nil, failure })
	if !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	if object, err := g.Get(t.Context(), "unchanged"); err != nil || object.Mark != 0 {
		t.Errorf("mark %d, %v", object.Mark, err)
	}
}
