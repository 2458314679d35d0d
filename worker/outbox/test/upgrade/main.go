// Command upgrade is the worker of the outbox's end-to-end test. It raises the level of a user step by step. Each step is one transaction
// under the guard: the row, and the event that tells of it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/guard"
	fence "github.com/leasehold-io/leasehold/worker/guard/postgres"
	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// order is the payload.
type order struct {
	User  string `json:"user"`
	Level int    `json:"level"` // to be reached
	// DieAt is the level at which the first attempt dies, with row and event written and nothing committed. 0: it does not.
	DieAt int `json:"dieAt"`
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o order
	payload, err := os.ReadFile(os.Getenv("LEASEHOLD_PAYLOAD_FILE"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(payload, &o); err != nil {
		return err
	}
	token, err := guard.Parse(os.Getenv("LEASEHOLD_FENCING_TOKEN"))
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, os.Getenv("UPGRADE_STORE_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var level int
	if err := conn.QueryRow(ctx, "SELECT level FROM users WHERE name = $1", o.User).Scan(&level); err != nil {
		return err
	}
	for level < o.Level {
		if level, err = o.step(ctx, conn, token); err != nil {
			return err
		}
	}
	return os.WriteFile(os.Getenv("LEASEHOLD_RESULT_FILE"), fmt.Appendf(nil, "level %d", level), 0o600)
}

func (o order) step(ctx context.Context, conn *pgx.Conn, token guard.Token) (int, error) {
	var level int
	err := fence.Do(ctx, conn, o.User, token, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "UPDATE users SET level = level + 1 WHERE name = $1 RETURNING level", o.User).Scan(&level); err != nil {
			return err
		}
		err := postgres.Enqueue(ctx, tx, outbox.Event{Key: o.User, Source: "/users", Type: "com.example.UserUpgraded",
			Data: fmt.Appendf(nil, `{"level":%d}`, level)})
		if err == nil && level == o.DieAt && os.Getenv("LEASEHOLD_ATTEMPT") == "1" {
			os.Exit(1)
		}
		return err
	})
	return level, err
}
