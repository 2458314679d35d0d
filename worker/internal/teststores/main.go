package teststores

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
)

// The environment variables through which tests and examples find the stores.
const (
	PostgresEnv = "DATABASE_URL"
	RedisEnv    = "REDIS_ADDR"
	S3Env       = "S3_ENDPOINT"
)

// Store is a kind of store that a test binary can ask for.
type Store struct {
	env   string
	start func(context.Context, io.Writer) (address string, stop func() error, err error)
}

// The stores.
var (
	Postgres = Store{env: PostgresEnv, start: func(ctx context.Context, _ io.Writer) (string, func() error, error) {
		server, err := pgtest.Start(ctx)
		if err != nil {
			return "", nil, err
		}
		return server.URL("postgres"), server.Stop, nil
	}}
	Redis = Store{env: RedisEnv, start: StartRedis}
	S3    = Store{env: S3Env, start: startS3}
)

// startLimit allows for the installation of packages and one build of the S3 gateway.
const startLimit = 9 * time.Minute

// missing holds, for this process, why a store is not there.
var missing = map[string]error{}

// Main is the body of a TestMain: it starts the stores, runs the tests, and stops the stores.
func Main(m *testing.M, stores ...Store) (code int) {
	flag.Parse()
	if list := flag.Lookup("test.list"); list != nil && list.Value.String() != "" {
		return m.Run()
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for _, store := range stores {
		if os.Getenv(store.env) != "" {
			continue
		}
		address, stop, err := store.start(ctx, os.Stderr)
		if err != nil {
			missing[store.env] = err
			fmt.Fprintf(os.Stderr, "SKIP: examples, for want of a store: %v\n", err)
			_ = flag.Set("test.skip", "^Example")
			continue
		}
		defer func() {
			if err := stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}()
		_ = os.Setenv(store.env, address)
	}
	return m.Run()
}

// Address is where the store is. Without it the test is skipped, unless the machine is one that must have it.
func (s Store) Address(tb testing.TB) string {
	tb.Helper()
	if address := os.Getenv(s.env); address != "" {
		return address
	}
	err := missing[s.env]
	if err == nil {
		err = errors.New("TestMain did not ask for it")
	}
	if os.Getenv("LEASEHOLD_REQUIRE_STORES") != "" {
		tb.Fatalf("%s: %v", s.env, err)
	}
	tb.Skipf("SKIP: %s: %v", s.env, err)
	return ""
}
