package redis

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// MarkPrefix precedes the name of the resource in the key of its mark.
const MarkPrefix = "leasehold:fence:"

// MaxArgs is how many arguments a command may have beside its name and key: what Lua can pass on, rounded down.
const MaxArgs = 7000

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
	Args []any // what follows the key, as go-redis takes it; at most MaxArgs
}

// PartialError says that a command has failed after those before it were done. Redis takes nothing back, so the write is there in part: it
// holds a [guard.UncertainError], with what Redis said of the command.
type PartialError struct {
	Done int // so many commands, from the first
	Of   int

	uncertain *guard.UncertainError
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("the write of token %d to %q is there in part: %d of %d commands were done, the next failed: %v",
		e.uncertain.Token, e.uncertain.Resource, e.Done, e.Of, e.uncertain.Err)
}

// Unwrap returns the [guard.UncertainError].
func (e *PartialError) Unwrap() error { return e.uncertain }

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
// value is nil, a status is a string. An error of the first command means that nothing was written, one of a later command is a
// [*PartialError].
func (g *Guard) Do(ctx context.Context, resource string, token guard.Token, commands ...Command) ([]any, error) {
	if err := guard.Validate(resource, token); err != nil {
		return nil, err
	}
	keys, args := []string{MarkPrefix + resource}, []any{token.String()}
	for _, c := range commands {
		if len(c.Args) > MaxArgs {
			return nil, fmt.Errorf("%s has %d arguments, at most %d are allowed", c.Name, len(c.Args), MaxArgs)
		}
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
		return nil, classify(err, resource, token, len(commands))
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
func classify(err error, resource string, token guard.Token, commands int) error {
	if answer, is := errors.AsType[redis.Error](err); is {
		return refusal(answer, resource, token, commands)
	}
	if dial, is := errors.AsType[*net.OpError](err); is && dial.Op == "dial" || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) {
		return err
	}
	return &guard.UncertainError{Resource: resource, Token: token, Err: err}
}

// refusal reads an error that the script, or Redis, has sent.
func refusal(answer redis.Error, resource string, token guard.Token, commands int) error {
	kind, rest, _ := strings.Cut(answer.Error(), " ")
	switch kind {
	case "STALE":
		mark, err := guard.Parse(rest)
		if err != nil {
			return err
		}
		return &guard.StaleError{Resource: resource, Token: token, Mark: mark}
	case "PARTIAL":
		number, said, _ := strings.Cut(rest, " ")
		done, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("the guard's script answers with %q", answer.Error())
		}
		return &PartialError{Done: done, Of: commands, uncertain: &guard.UncertainError{Resource: resource, Token: token, Err: errors.New(said)}}
	}
	return answer
}
