package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/redis"
	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

// TestACommandThatFailsTakesNothingBack: what was written before it is, and who asked is told.
func TestACommandThatFailsTakesNothingBack(t *testing.T) {
	client := connect(t, teststores.Redis.Address(t))
	g, ctx := guardOf(t, client), t.Context()
	if err := client.Set(ctx, "partial:text", "text", 0).Err(); err != nil {
		t.Fatal(err)
	}
	count := redis.Command{Name: "INCRBY", Key: "partial:count", Args: []any{5}}
	wrong := redis.Command{Name: "LPUSH", Key: "partial:text", Args: []any{1}}
	for _, tc := range []struct {
		commands []redis.Command
		done     int
		want     string // what is counted after all
	}{
		{[]redis.Command{wrong, count}, 0, ""},
		{[]redis.Command{count, wrong, count}, 1, "5"},
		{[]redis.Command{count, count, wrong}, 2, "15"},
		{[]redis.Command{count, {Name: "NONSUCH", Key: "partial:text"}}, 1, "20"},
	} {
		_, err := g.Do(ctx, "partial", 3, tc.commands...)
		partial, is := errors.AsType[*redis.PartialError](err)
		switch {
		case err == nil || is != (tc.done > 0) || guard.IsUncertain(err) != is:
			t.Errorf("%v: %v", tc.commands, err)
		case is && (partial.Done != tc.done || partial.Of != len(tc.commands) || !strings.Contains(err.Error(), fmt.Sprintf("%d of %d", tc.done, len(tc.commands)))):
			t.Errorf("%v: %+v: %v", tc.commands, partial, err)
		case tc.commands[tc.done].Name == "LPUSH" && !strings.Contains(err.Error(), "WRONGTYPE"):
			t.Errorf("%v: it does not say why: %v", tc.commands, err)
		}
		if got := client.Get(ctx, "partial:count").Val(); got != tc.want {
			t.Errorf("after %v: count %q, want %q", tc.commands, got, tc.want)
		}
	}
	if mark, err := g.Mark(ctx, "partial"); err != nil || mark != 3 {
		t.Errorf("mark %d, %v", mark, err)
	}
}

// TestTooManyArgumentsWriteNothing: Lua cannot pass them on, and finds that out in the middle.
func TestTooManyArgumentsWriteNothing(t *testing.T) {
	client := connect(t, teststores.Redis.Address(t))
	g, ctx := guardOf(t, client), t.Context()
	first := redis.Command{Name: "INCRBY", Key: "many:count", Args: []any{1}}
	push := func(n int) redis.Command {
		return redis.Command{Name: "RPUSH", Key: "many:list", Args: slices.Repeat([]any{"x"}, n)}
	}
	for _, most := range [][]redis.Command{{push(redis.MaxArgs)}, {first, push(redis.MaxArgs), push(redis.MaxArgs)}} {
		if _, err := g.Do(ctx, "many", 1, most...); err != nil {
			t.Errorf("as many as are allowed: %v", err)
		}
	}
	for _, more := range [][]redis.Command{{push(redis.MaxArgs + 1)}, {first, push(redis.MaxArgs + 1)}} {
		if _, err := g.Do(ctx, "many", 2, more...); err == nil || guard.IsUncertain(err) || guard.IsStale(err) {
			t.Errorf("one more: %v", err)
		}
		// As another language does it, which has nobody who counts.
		args, keys := []any{"2"}, []string{redis.MarkPrefix + "many"}
		for _, c := range more {
			keys, args = append(keys, c.Key), append(append(args, c.Name, len(c.Args)), c.Args...)
		}
		if err := client.Eval(ctx, redis.Script, keys, args...).Err(); err == nil || !strings.Contains(err.Error(), "7000") {
			t.Errorf("one more, past the package: %v", err)
		}
	}
	if count, length := client.Get(ctx, "many:count").Val(), client.LLen(ctx, "many:list").Val(); count != "1" || length != 3*redis.MaxArgs {
		t.Errorf("count %s, list of %d", count, length)
	}
	if mark, err := g.Mark(ctx, "many"); err != nil || mark != 1 {
		t.Errorf("mark %d, %v", mark, err)
	}
}

// TestACallInAnotherFormWritesNothing: of a script that is called from another language.
func TestACallInAnotherFormWritesNothing(t *testing.T) {
	client := connect(t, teststores.Redis.Address(t))
	ctx := t.Context()
	mark := redis.MarkPrefix + "form"
	for name, call := range map[string]struct {
		keys []string
		args []any
	}{
		"no token":               {[]string{mark}, nil},
		"a command too many":     {[]string{mark}, []any{"1", "SET", 1, "a"}},
		"a key too many":         {[]string{mark, "form:a", "form:b"}, []any{"1", "SET", 1, "a"}},
		"an argument too many":   {[]string{mark, "form:a"}, []any{"1", "SET", 1, "a", "b"}},
		"an argument is missing": {[]string{mark, "form:a", "form:b"}, []any{"1", "SET", 1, "a", "SET", 2, "b"}},
		"no number":              {[]string{mark, "form:a"}, []any{"1", "SET", "a"}},
		"half a number":          {[]string{mark, "form:a", "form:b"}, []any{"1", "SET", 0.5, "a", "SET", 1, "b"}},
		"nan":                    {[]string{mark, "form:a"}, []any{"1", "SET", "nan", "a"}},
		"below zero":             {[]string{mark, "form:a"}, []any{"1", "SET", -1}},
	} {
		if err := client.Eval(ctx, redis.Script, call.keys, call.args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR ") {
			t.Errorf("%s: %v", name, err)
		}
		if found := client.Exists(ctx, mark, "form:a", "form:b").Val(); found != 0 {
			t.Errorf("%s: %d keys were written", name, found)
		}
	}
}
