package postgres_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// The business row and the event are committed together. A relay, here in the same process and with a sink that prints, delivers
// the event afterwards.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	database := pgtest.Example(postgres.Schema, `CREATE TABLE users (id int PRIMARY KEY, plan text NOT NULL); INSERT INTO users VALUES (7, 'free')`)
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()

	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE users SET plan = 'gold' WHERE id = 7"); err != nil {
			return err
		}
		return postgres.Enqueue(ctx, tx, outbox.Event{Key: "user-7", Source: "/users", Type: "com.example.UserUpgraded", Data: []byte(`{"plan":"gold"}`)})
	})
	if err != nil {
		panic(err)
	}

	relay, err := postgres.New(postgres.Config{
		Database: conn.Config(),
		Sink: outbox.SinkFunc(func(_ context.Context, e outbox.Event) error {
			fmt.Printf("%s of %s: %s\n", e.Type, e.Key, e.Data)
			stop() // a relay in production runs on
			return nil
		}),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	if err := relay.Run(ctx); err != nil {
		panic(err)
	}
	// Output: com.example.UserUpgraded of user-7: {"plan":"gold"}
}
