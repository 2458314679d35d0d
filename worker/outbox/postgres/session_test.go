package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestAPoolerTakesTheRelay: PgBouncer refuses a connection that begins with settings that it does not track, in each of its modes.
func TestAPoolerTakesTheRelay(t *testing.T) {
	database, err := pgx.ParseConfig("postgres://outbox@db/shop?application_name=mine")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range (Config{Database: database}).session().RuntimeParams {
		if name != "application_name" || value != "mine" {
			t.Errorf("the connection begins with %s=%s", name, value)
		}
	}
}
