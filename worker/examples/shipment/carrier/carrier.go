package main

import (
	"context"
	_ "embed" // the schema
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-io/leasehold/worker/guard"
	guardpg "github.com/leasehold-io/leasehold/worker/guard/postgres"
	"github.com/leasehold-io/leasehold/worker/idempotency/postgres"
)

//go:embed schema.sql
var schema string

const (
	scope   = "carrier/ship"
	maxBody = 4 << 10
)

// carrier keeps shipments in PostgreSQL: one for each idempotency key, whoever asks how often.
type carrier struct{ db *pgxpool.Pool }

// order is what is asked, and with its number what is answered.
type order struct {
	Number int64  `json:"number,omitempty"`
	To     string `json:"to"`
}

// problem is an answer that is no yes.
type problem struct {
	status int
	detail string
}

func (p *problem) Error() string { return p.detail }

func newCarrier(ctx context.Context, db *pgxpool.Pool) (*carrier, error) {
	if err := guardpg.Migrate(ctx, db); err != nil {
		return nil, err
	}
	for _, script := range []string{schema, postgres.Schema} {
		if _, err := db.Exec(ctx, script); err != nil && !isThere(err) {
			return nil, err
		}
	}
	return &carrier{db}, nil
}

// ship ships what is asked for, or answers as it did when it was asked before. One transaction keeps out whoever was overtaken, recognises
// the call, ships, and stores the answer.
func (c *carrier) ship(ctx context.Context, key string, token guard.Token, body []byte) (answer []byte, isRepeat bool, err error) {
	var asked order
	if err := json.Unmarshal(body, &asked); err != nil || asked.To == "" || asked.Number != 0 {
		return nil, false, &problem{http.StatusBadRequest, `the body is not {"to": "..."}`}
	}
	canonical, err := json.Marshal(asked) // two spellings of one order are one order
	if err != nil {
		return nil, false, err
	}
	var response postgres.Response
	err = pgx.BeginFunc(ctx, c.db, func(tx pgx.Tx) error {
		if err := guardpg.Check(ctx, tx, resource(key), token); err != nil {
			return err
		}
		request := postgres.Request{Scope: scope, Key: key, Payload: canonical}
		response, err = postgres.Do(ctx, tx, request, func(ctx context.Context) ([]byte, error) {
			const insert = "INSERT INTO shipment (key, destination) VALUES ($1, $2) RETURNING number"
			if err := tx.QueryRow(ctx, insert, key, asked.To).Scan(&asked.Number); err != nil {
				return nil, err
			}
			return json.Marshal(asked)
		})
		return err
	})
	if _, isConflict := errors.AsType[*postgres.ConflictError](err); isConflict {
		err = &problem{http.StatusUnprocessableEntity, err.Error()}
	}
	return response.Body, response.Replayed, stale(err)
}

// find looks a shipment up. It raises the mark first, in the transaction that looks: what an earlier attempt has sent and is still on
// its way will be refused, so that a no stays one.
func (c *carrier) find(ctx context.Context, key string, token guard.Token) (answer []byte, err error) {
	var found order
	err = guardpg.Do(ctx, c.db, resource(key), token, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT number, destination FROM shipment WHERE key = $1", key).Scan(&found.Number, &found.To)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // the mark has to stand
		}
		return err
	})
	switch {
	case err != nil:
		return nil, stale(err)
	case found.Number == 0:
		return nil, &problem{http.StatusNotFound, "nothing was shipped for this key"}
	}
	return json.Marshal(found)
}

func resource(key string) string { return "shipment/" + key }

// stale answers a token that was overtaken.
func stale(err error) error {
	if guard.IsStale(err) {
		return &problem{http.StatusPreconditionFailed, err.Error()}
	}
	return err
}

// count is how many shipments there are.
func (c *carrier) count(ctx context.Context) (n int, err error) {
	err = c.db.QueryRow(ctx, "SELECT count(*) FROM shipment").Scan(&n)
	return n, err
}

// credentials are the two headers of every call.
func credentials(key string, r *http.Request) (string, guard.Token, error) {
	token, err := guard.Parse(r.Header.Get("Fencing-Token"))
	switch {
	case key == "" || len(key) > 256:
		return "", 0, &problem{http.StatusBadRequest, "the idempotency key has not 1 to 256 bytes"}
	case err != nil:
		return "", 0, &problem{http.StatusBadRequest, fmt.Sprintf("the header Fencing-Token: %v", err)}
	}
	return key, token, nil
}
