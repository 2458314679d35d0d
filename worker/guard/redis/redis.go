package redis

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// MarkPrefix precedes the name of the resource in the key of its mark.
const MarkPrefix = "leasehold:fence:"

// Script is fence.lua.
//
//go:embed fence.lua
var Script string

var script = redis.NewScript(Script)

// Guard writes through the marks of one Redis database.
type Guard struct{ client *redis.Client }

// Command is one command with one key: SET, HSET, INCRBY and so on.
type Command struct {
	Name string
	Key  string
	Args []any // what follows the key, as go-redis takes it
}

// New makes a guard. It refuses a client that repeats commands on its own (set Options.MaxRetries to -1), because a repeat can be refused
// where the first try was done, and a server that may throw away marks.
func New(ctx context.Context, client *redis.Client) (*Guard, error) {
	if retries := client.Options().MaxRetries; retries > 0 {
		return nil, fmt.Errorf("the Redis client repeats commands %d times; a guard needs Options.MaxRetries: -1", retries)
	}
	memory, err := client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return nil, fmt.Errorf("ask Redis for its eviction policy: %w", err)
	}
	if policy := memory["Memory"]["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		return nil, fmt.Errorf("the Redis server may evict marks: maxmemory-policy is %s, use noeviction or a volatile one", policy)
	}
	return &Guard{client: client}, nil
}

// Do runs the commands in one step if no higher token has written to the resource, and returns their answers as a script does: a missing
// value is nil, a status is a string.
func (g *Guard) Do(ctx context.Context, resource string, token guard.Token, commands ...Command) ([]any, error) {
	if err := guard.Validate(resource, token); err != nil {
		return nil, err
	}
	keys, args := []string{MarkPrefix + resource}, []any{token.String()}
	for _, c := range commands {
		keys = append(keys, c.Key)
		args = append(append(args, c.Name, len(c.Args)), c.Args...)
	}
	answer, err := script.Run(ctx, g.client, keys, args...).Result()
	switch answers, isList := answer.([]any); {
	case len(commands) == 1 && (err == nil || errors.Is(err, redis.Nil)): // which is a missing value
		return []any{answer}, nil
	case err == nil && isList:
		return answers, nil
	case err == nil:
		return nil, fmt.Errorf("the guard's script answers with %T", answer)
	default:
		return nil, classify(err, resource, token)
	}
}

// Mark is the highest token that has written to the resource, 0 if none has.
func (g *Guard) Mark(ctx context.Context, resource string) (guard.Token, error) {
	text, err := g.client.Get(ctx, MarkPrefix+resource).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return guard.Parse(text)
}

// classify tells a refusal, an error that Redis sent, and one from before anything was sent, from a lost answer.
func classify(err error, resource string, token guard.Token) error {
	if err == nil {
		return nil
	}
	if answer, is := errors.AsType[redis.Error](err); is {
		text, refused := strings.CutPrefix(answer.Error(), "STALE ")
		if !refused {
			return err
		}
		mark, err := guard.Parse(text)
		if err != nil {
			return err
		}
		return &guard.StaleError{Resource: resource, Token: token, Mark: mark}
	}
	if dial, is := errors.AsType[*net.OpError](err); is && dial.Op == "dial" || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) {
		return err
	}
	return &guard.UncertainError{Resource: resource, Token: token, Err: err}
}
