package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Row is one write of an attempt.
type Row struct {
	Task    string
	Attempt int
	Token   int64
}

const schema = `
CREATE TABLE mark (task text PRIMARY KEY, token bigint NOT NULL);
CREATE TABLE accepted (seq bigserial PRIMARY KEY, task text NOT NULL, attempt int NOT NULL, token bigint NOT NULL);
CREATE TABLE refused (seq bigserial PRIMARY KEY, task text NOT NULL, attempt int NOT NULL, token bigint NOT NULL);`

// Setup makes the tables.
func Setup(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, schema)
	return err
}

const guardedWrite = `
WITH raised AS (
  INSERT INTO mark (task, token) VALUES ($1, $3)
  ON CONFLICT (task) DO UPDATE SET token = excluded.token WHERE mark.token <= excluded.token
  RETURNING task
), kept AS (
  INSERT INTO accepted (task, attempt, token) SELECT $1, $2, $3 FROM raised
), lost AS (
  INSERT INTO refused (task, attempt, token) SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT FROM raised)
)
SELECT count(*) FROM raised`

// Write writes a row unless a higher token has been there. An error says nothing about whether it was written.
func Write(ctx context.Context, conn *pgx.Conn, r Row) (accepted bool, err error) {
	var raised int
	err = conn.QueryRow(ctx, guardedWrite, r.Task, r.Attempt, r.Token).Scan(&raised)
	return raised == 1, err
}

// Rows are all rows that were accepted and refused, each in order.
func Rows(ctx context.Context, conn *pgx.Conn) (accepted, refused []Row, err error) {
	if accepted, err = read(ctx, conn, "SELECT task, attempt, token FROM accepted ORDER BY seq"); err != nil {
		return nil, nil, err
	}
	refused, err = read(ctx, conn, "SELECT task, attempt, token FROM refused ORDER BY seq")
	return accepted, refused, err
}

func read(ctx context.Context, conn *pgx.Conn, query string) ([]Row, error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
}
