package postgres_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/postgres"
)

// open is for the examples: in a worker the pool and the token are at hand.
func open(ctx context.Context) *pgxpool.Pool {
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err == nil {
		err = prepare(ctx, db)
	}
	if err != nil {
		panic(err)
	}
	return db
}

func ExampleDo() {
	ctx := context.Background()
	db := open(ctx)
	defer db.Close()
	pay := func(token guard.Token) error {
		return postgres.Do(ctx, db, "account/42", token, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO account VALUES ('42', 'paid') ON CONFLICT (id) DO UPDATE SET value = 'paid'")
			return err
		})
	}
	fmt.Println(pay(7))
	fmt.Println(pay(5)) // an attempt that was frozen, and wakes late
	// Output:
	// <nil>
	// stale: token 5 may not write to "account/42", which has seen token 7
}

func ExampleSendBatch() {
	ctx := context.Background()
	db := open(ctx)
	defer db.Close()
	batch := &pgx.Batch{} // one round trip
	batch.Queue("INSERT INTO account VALUES ('43', 'paid') ON CONFLICT (id) DO UPDATE SET value = 'paid'")
	fmt.Println(postgres.SendBatch(ctx, db, "account/43", 7, batch))
	// Output: <nil>
}

func ExampleCheck() {
	ctx := context.Background()
	db := open(ctx)
	defer db.Close()
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { // a transaction of your own
		if err := postgres.Check(ctx, tx, "account/44", 7); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO account VALUES ('44', 'paid') ON CONFLICT (id) DO UPDATE SET value = 'paid'")
		return err
	})
	mark, _ := postgres.Mark(ctx, db, "account/44")
	fmt.Println(err, mark)
	// Output: <nil> 7
}
