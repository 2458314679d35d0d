package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// TestWhatAnAnswerToTheCommitSays: that of the server about the transaction is certain. A pooler's that it lost the server, as PgBouncer
// sends it, and that of a server that ends, are not.
func TestWhatAnAnswerToTheCommitSays(t *testing.T) {
	for name, c := range map[string]struct {
		answer      pgconn.PgError
		isUncertain bool
	}{
		"a deferred constraint":   {pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "23505"}, false},
		"a serialization failure": {pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "40001"}, false},
		"a pooler":                {pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: "server conn crashed?"}, true},
		"another pooler":          {pgconn.PgError{Severity: "ERROR", Code: "08006"}, true},
		"a panic":                 {pgconn.PgError{Severity: "PANIC", SeverityUnlocalized: "PANIC", Code: "58030"}, true},
		"completion unknown":      {pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "40003"}, true},
	} {
		if err := lostAnswer(&c.answer, "a", 7); guard.IsUncertain(err) != c.isUncertain {
			t.Errorf("%s: %v", name, err)
		}
	}
}
