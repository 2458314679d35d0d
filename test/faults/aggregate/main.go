// Command aggregate is a worker that cooperates: it sums up units of work inside one database transaction, and looks at its cancel
// file before each of them. Told to stop, it rolls back, says so, and exits with 3; nothing of what it had done is left. At the
// end it commits and writes the sum as its result.
//
// A guarded one writes each unit by itself, past the guard of package store; it exits with 4 when the guard has seen a higher token.
//
// A signal does not end it: what it is told, and why, stands in the file, which is there first.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/test/faults/store"
)

// StoreEnv names the database.
const StoreEnv = "AGGREGATE_STORE_URL"

const (
	exitStopped = 3
	exitRefused = 4
	exitBroken  = 90
)

// Order is the payload.
type Order struct {
	Units       int     `json:"units"`
	UnitSeconds float64 `json:"unitSeconds"`
	Guarded     bool    `json:"guarded,omitempty"`
}

func main() {
	signal.Ignore(syscall.SIGTERM)
	err := work(context.Background(), os.Stdout)
	var stop stopped
	switch {
	case err == nil:
	case errors.As(err, &stop):
		fmt.Println(stop.Error())
		os.Exit(exitStopped)
	case errors.Is(err, errRefused):
		fmt.Println(err)
		os.Exit(exitRefused)
	default:
		fmt.Println("aggregate:", err)
		os.Exit(exitBroken)
	}
}

// stopped says what it was told, and when.
type stopped struct {
	reason string
	unit   int
}

func (s stopped) Error() string {
	return fmt.Sprintf("told to stop before unit %d (%s); rolled back", s.unit, s.reason)
}

func work(ctx context.Context, out io.Writer) error {
	order := Order{}
	payload, err := os.ReadFile(os.Getenv(env.PayloadFile))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(payload, &order); err != nil {
		return err
	}
	row, err := me()
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, os.Getenv(StoreEnv))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	do := aggregate
	if order.Guarded {
		do = guarded
	}
	sum, err := do(ctx, conn, out, order, row)
	if err != nil {
		return err
	}
	return os.WriteFile(os.Getenv(env.ResultFile), fmt.Appendf(nil, "%d by attempt %d", sum, row.Attempt), 0o644)
}

// me is whoever writes.
func me() (store.Row, error) {
	attempt, err := strconv.Atoi(os.Getenv(env.Attempt))
	if err != nil {
		return store.Row{}, err
	}
	token, err := strconv.ParseInt(os.Getenv(env.FencingToken), 10, 64)
	return store.Row{Task: os.Getenv(env.Task), Attempt: attempt, Token: token}, err
}

var errRefused = errors.New("refused: a higher token was here")

// guarded writes one unit after another, as long as the guard lets it.
func guarded(ctx context.Context, conn *pgx.Conn, out io.Writer, order Order, row store.Row) (sum int, err error) {
	for unit := 1; unit <= order.Units; unit++ {
		accepted, err := store.Write(ctx, conn, row)
		if err != nil {
			return 0, err
		}
		if !accepted {
			return 0, errRefused
		}
		sum += unit
		_, _ = fmt.Fprintf(out, "unit %d is done\n", unit)
		time.Sleep(time.Duration(order.UnitSeconds * float64(time.Second)))
	}
	return sum, nil
}

// aggregate does all units in one transaction, or none.
func aggregate(ctx context.Context, conn *pgx.Conn, out io.Writer, order Order, row store.Row) (sum int, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing once it is committed
	for unit := 1; unit <= order.Units; unit++ {
		if reason, isTold := told(); isTold {
			if err := tx.Rollback(ctx); err != nil {
				return 0, err
			}
			return 0, stopped{reason, unit}
		}
		if _, err := tx.Exec(ctx, "INSERT INTO sums (task, unit, token) VALUES ($1, $2, $3)", row.Task, unit, row.Token); err != nil {
			return 0, err
		}
		sum += unit
		_, _ = fmt.Fprintf(out, "unit %d is done\n", unit)
		time.Sleep(time.Duration(order.UnitSeconds * float64(time.Second)))
	}
	return sum, tx.Commit(ctx)
}

// told looks for the cancel file.
func told() (reason string, isTold bool) {
	content, err := os.ReadFile(os.Getenv(env.CancelFile))
	return strings.ReplaceAll(strings.TrimSpace(string(content)), "\n", ": "), err == nil
}
