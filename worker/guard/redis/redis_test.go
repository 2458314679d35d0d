package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/conformance"
	"github.com/leasehold-io/leasehold/worker/guard/redis"
	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

func TestMain(m *testing.M) { os.Exit(teststores.Main(m, teststores.Redis)) }

func connect(tb testing.TB, address string) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: address, MaxRetries: -1, PoolSize: 1, Protocol: 2, DisableIdentity: true})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

func guardOf(tb testing.TB, client *goredis.Client) *redis.Guard {
	tb.Helper()
	g, err := redis.New(tb.Context(), client)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

type register struct {
	*redis.Guard
	client *goredis.Client
	write  func(ctx context.Context, r register, resource string, token guard.Token, value string) error
}

func (r register) Write(ctx context.Context, resource string, token guard.Token, value string) error {
	return r.write(ctx, r, resource, token, value)
}

func (r register) Read(ctx context.Context, resource string) (conformance.State, error) {
	both, err := r.client.MGet(ctx, resource, redis.MarkPrefix+resource).Result()
	if err != nil {
		return conformance.State{}, err
	}
	var state conformance.State
	state.Value, _ = both[0].(string)
	if text, found := both[1].(string); found {
		state.Mark, err = guard.Parse(text)
	}
	return state, err
}

func oneScript(ctx context.Context, r register, resource string, token guard.Token, value string) error {
	_, err := r.Do(ctx, resource, token, redis.Command{Name: "SET", Key: resource, Args: []any{value}})
	return err
}

// checkThenWrite is what a guard must not be: the check is a script, and the write follows.
func checkThenWrite(ctx context.Context, r register, resource string, token guard.Token, value string) error {
	if _, err := r.Do(ctx, resource, token); err != nil {
		return err
	}
	return r.client.Set(ctx, resource, value, 0).Err()
}

func store(t *testing.T, write func(context.Context, register, string, guard.Token, string) error) conformance.Store {
	return conformance.Store{
		Address: teststores.Redis.Address(t),
		Open: func(tb testing.TB, address string) conformance.Register {
			client := connect(tb, address)
			return register{guardOf(tb, client), client, write}
		},
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, store(t, oneScript)) }

func TestConformanceFindsCheckThenWrite(t *testing.T) {
	if conformance.Inside() {
		conformance.Run(t, store(t, checkThenWrite))
		return
	}
	teststores.Redis.Address(t)
	conformance.MustFail(t, "Crash", "Concurrent", "Linearizable", "Property")
}

func TestSeveralCommandsAreOneStep(t *testing.T) {
	client := connect(t, teststores.Redis.Address(t))
	g, ctx := guardOf(t, client), t.Context()
	answers, err := g.Do(ctx, "several", 3,
		redis.Command{Name: "HSET", Key: "several:hash", Args: []any{"a", 1, "b", "two"}},
		redis.Command{Name: "INCRBY", Key: "several:count", Args: []any{5}},
		redis.Command{Name: "GET", Key: "several:none"},
		redis.Command{Name: "SET", Key: "several:text", Args: []any{"x"}})
	if got := fmt.Sprint(answers); err != nil || got != "[2 5 <nil> OK]" {
		t.Errorf("answers %s, %v", got, err)
	}
	_, err = g.Do(ctx, "several", 2, redis.Command{Name: "INCRBY", Key: "several:count", Args: []any{5}})
	if !guard.IsStale(err) {
		t.Errorf("a lower token: %v", err)
	}
	if count, err := client.Get(ctx, "several:count").Int(); err != nil || count != 5 {
		t.Errorf("count %d, %v", count, err)
	}
}

func TestAnswerOfOneCommand(t *testing.T) {
	g, ctx := guardOf(t, connect(t, teststores.Redis.Address(t))), t.Context()
	for _, test := range []struct {
		name string
		args []any
		want string
	}{
		{"RPUSH", []any{"a", "b"}, "[2]"},
		{"LRANGE", []any{0, -1}, "[[a b]]"},
		{"LRANGE", []any{5, 9}, "[[]]"},
		{"LINDEX", []any{9}, "[<nil>]"},
		{"DEL", nil, "[1]"},
		{"SET", []any{"v"}, "[OK]"},
		{"GET", nil, "[v]"},
	} {
		answers, err := g.Do(ctx, "one", 3, redis.Command{Name: test.name, Key: "one:key", Args: test.args})
		if got := fmt.Sprint(answers); err != nil || got != test.want {
			t.Errorf("%s %v: %s, %v", test.name, test.args, got, err)
		}
	}
}

func TestErrorOfRedisIsNotUncertain(t *testing.T) {
	client := connect(t, teststores.Redis.Address(t))
	g, ctx := guardOf(t, client), t.Context()
	if err := client.Set(ctx, "wrong", "text", 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, err := g.Do(ctx, "wrong", 1, redis.Command{Name: "LPUSH", Key: "wrong", Args: []any{1}})
	if err == nil || guard.IsUncertain(err) || guard.IsStale(err) {
		t.Errorf("a command on the wrong type: %v", err)
	}
	unreachable := guardOf(t, client)
	_ = client.Close()
	if _, err := unreachable.Do(ctx, "wrong", 1); err == nil || guard.IsUncertain(err) {
		t.Errorf("a closed client: %v", err)
	}
}

func TestNewRefusesWhatBreaksTheGuarantee(t *testing.T) {
	address, ctx := teststores.Redis.Address(t), t.Context()
	repeating := goredis.NewClient(&goredis.Options{Addr: address})
	t.Cleanup(func() { _ = repeating.Close() })
	if _, err := redis.New(ctx, repeating); err == nil || !strings.Contains(err.Error(), "MaxRetries") {
		t.Errorf("a client that repeats: %v", err)
	}
	client := connect(t, address)
	if err := client.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	defer client.ConfigSet(ctx, "maxmemory-policy", "noeviction")
	if _, err := redis.New(ctx, client); err == nil || !strings.Contains(err.Error(), "allkeys-lru") {
		t.Errorf("a server that evicts marks: %v", err)
	}
}

// TestMarkIsPlainText: what another language reads.
func TestMarkIsPlainText(t *testing.T) {
	client := connect(t, teststores.Redis.Address(t))
	g, ctx := guardOf(t, client), t.Context()
	if _, err := g.Do(ctx, "plain", math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	text, err := client.Get(ctx, "leasehold:fence:plain").Result()
	if err != nil || text != "9223372036854775807" {
		t.Errorf("mark %q, %v", text, err)
	}
	if mark, err := g.Mark(ctx, "plain"); err != nil || mark != math.MaxInt64 {
		t.Errorf("mark %d, %v", mark, err)
	}
	if mark, err := g.Mark(ctx, "none"); err != nil || mark != 0 {
		t.Errorf("mark of nothing %d, %v", mark, err)
	}
	if err := client.Set(ctx, "leasehold:fence:plain", "mine", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Mark(ctx, "plain"); err == nil || errors.Is(err, goredis.Nil) {
		t.Errorf("a mark that is no number: %v", err)
	}
}

func ExampleGuard_Do() {
	ctx := context.Background()
	client := goredis.NewClient(&goredis.Options{Addr: os.Getenv("REDIS_ADDR"), MaxRetries: -1})
	defer func() { _ = client.Close() }()
	fenced, err := redis.New(ctx, client)
	if err != nil {
		panic(err)
	}
	pay := func(token guard.Token) error {
		_, err := fenced.Do(ctx, "account/42", token, redis.Command{Name: "SET", Key: "account:42", Args: []any{"paid"}})
		return err
	}
	fmt.Println(pay(7))
	fmt.Println(pay(5)) // an attempt that was frozen, and wakes late
	// Output:
	// <nil>
	// stale: token 5 may not write to "account/42", which has seen token 7
}
