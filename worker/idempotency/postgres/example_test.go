package postgres_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/idempotency/postgres"
	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
)

// A withdrawal is asked for twice with one key: it happens once, and both get the same answer. Another amount with that key is refused.
func ExampleDo() {
	ctx := context.Background()
	database := pgtest.Example(postgres.Schema, `CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL); INSERT INTO account VALUES (42, 100)`)
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close(ctx) }()

	withdraw := func(key string, amount int) (response postgres.Response, err error) {
		request := postgres.Request{Scope: "withdraw", Key: key, Payload: fmt.Append(nil, amount)}
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			response, err = postgres.Do(ctx, tx, request, func(ctx context.Context) ([]byte, error) {
				var left int
				err := tx.QueryRow(ctx, "UPDATE account SET balance = balance - $1 WHERE id = 42 RETURNING balance", amount).Scan(&left)
				return fmt.Append(nil, left), err
			})
			return err
		})
		return response, err
	}
	for range 2 {
		response, err := withdraw("task-17/withdraw", 10)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s left, replayed: %v\n", response.Body, response.Replayed)
	}
	_, err = withdraw("task-17/withdraw", 11)
	var conflict *postgres.ConflictError
	fmt.Println("conflict:", errors.As(err, &conflict))
	// Output:
	// 90 left, replayed: false
	// 90 left, replayed: true
	// conflict: true
}
