package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

// Config is what a relay needs. Zero values are replaced by the defaults.
type Config struct {
	// Database is where the outbox is. The relay makes its own three connections, which must be direct or through a pooler in session
	// mode: in transaction mode notifications get lost, and the settings of the session with them. Required.
	Database *pgx.ConnConfig
	// Sink takes the events. Required.
	Sink outbox.Sink
	// Batch is how many events are claimed at once, held in memory (up to 1 MiB each), and delivered again after a crash. 1 to 1000,
	// default 100.
	Batch int
	// Concurrency is how many keys of a batch are delivered at once. 1 to 1000, default 16.
	Concurrency int
	// Poll is how often the relay looks without having been woken. Default 1 s.
	Poll time.Duration
	// DeliveryTimeout bounds one delivery. Default 10 s.
	DeliveryTimeout time.Duration
	// BatchTimeout is when the relay starts no further delivery of a batch, and settles. Default 30 s. An open batch keeps vacuum from
	// removing rows in the whole database, and its keys from other relays.
	BatchTimeout time.Duration
	// MaxAttempts is how many counted failures park an event. Default 20: about half an hour with the default back-off.
	MaxAttempts int
	// Backoff is the wait of a key after a counted failure. Default 500 ms doubling up to 5 min.
	Backoff outbox.Backoff
	// OutageBackoff is the wait of the relay while the sink or the database is away. Default 200 ms doubling up to 15 s.
	OutageBackoff outbox.Backoff
	// VacuumEvery is after how many delivered events this relay vacuums the table. Default 20000; negative: never.
	VacuumEvery int
	// Hooks are told what happens.
	Hooks Hooks
	// Log gets what needs a person's eye: parked events, lost connections, and when the sink begins to take nothing and ends to. It gets
	// the text of the sink's errors, never an event's data. Default slog.Default().
	Log *slog.Logger
	// Random spreads waits; in [0, 1). Default math/rand/v2.
	Random func() float64
}

// Hooks feed metrics. They are called from the relay's goroutines, several at once, and must not block. Nil ones are left out.
type Hooks struct {
	// Delivered is called after an event was taken; age is since its INSERT, measured by the database at the claim.
	Delivered func(event outbox.Event, age time.Duration)
	// Failed is called for each delivery that was not taken, with what follows from it.
	Failed func(event outbox.Event, verdict outbox.Verdict, err error)
	// Round is called after each look into the table, also after those that found nothing.
	Round func(Round)
}

// Round is what one look came to.
type Round struct {
	Claimed, Delivered, Retried, Parked int
	// Outage: the sink took nothing of what it was offered, and said that this is not the events' fault.
	Outage bool
	// Err: the database failed, and the whole batch will be claimed again.
	Err error
}

func (c Config) withDefaults() (Config, error) {
	c.Batch, c.Concurrency = cmp.Or(c.Batch, 100), cmp.Or(c.Concurrency, 16)
	c.Poll, c.DeliveryTimeout = cmp.Or(c.Poll, time.Second), cmp.Or(c.DeliveryTimeout, 10*time.Second)
	c.BatchTimeout, c.MaxAttempts = cmp.Or(c.BatchTimeout, 30*time.Second), cmp.Or(c.MaxAttempts, 20)
	c.Backoff = cmp.Or(c.Backoff, outbox.Backoff{Base: 500 * time.Millisecond, Cap: 5 * time.Minute})
	c.OutageBackoff = cmp.Or(c.OutageBackoff, outbox.Backoff{Base: 200 * time.Millisecond, Cap: 15 * time.Second})
	c.VacuumEvery, c.Log = cmp.Or(c.VacuumEvery, 20_000), cmp.Or(c.Log, slog.Default())
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Hooks.Delivered == nil {
		c.Hooks.Delivered = func(outbox.Event, time.Duration) {}
	}
	if c.Hooks.Failed == nil {
		c.Hooks.Failed = func(outbox.Event, outbox.Verdict, error) {}
	}
	if c.Hooks.Round == nil {
		c.Hooks.Round = func(Round) {}
	}
	return c, c.check()
}

func (c Config) check() error {
	var problems []error
	if c.Database == nil || c.Sink == nil {
		problems = append(problems, errors.New("database and sink are required"))
	}
	for name, n := range map[string]int{"batch": c.Batch, "concurrency": c.Concurrency, "attempts": c.MaxAttempts} {
		if n < 1 || n > 1000 {
			problems = append(problems, fmt.Errorf("%s: %d is not in 1 to 1000", name, n))
		}
	}
	for name, d := range map[string]time.Duration{"poll": c.Poll, "delivery timeout": c.DeliveryTimeout, "batch timeout": c.BatchTimeout,
		"back-off base": c.Backoff.Base, "back-off cap": c.Backoff.Cap, "outage back-off base": c.OutageBackoff.Base, "outage back-off cap": c.OutageBackoff.Cap} {
		if d < time.Millisecond || d > time.Hour {
			problems = append(problems, fmt.Errorf("%s: %v is not in 1ms to 1h", name, d))
		}
	}
	return errors.Join(problems...)
}

// settleLimit bounds the statements around the deliveries.
const settleLimit = 10 * time.Second

// session is how the relay connects. Its settings come after the start, at which PgBouncer would refuse them.
func (c Config) session() *pgx.ConnConfig {
	conn := c.Database.Copy()
	conn.RuntimeParams["application_name"] = cmp.Or(conn.RuntimeParams["application_name"], "leasehold-outbox-relay")
	before := conn.AfterConnect
	conn.AfterConnect = func(ctx context.Context, pg *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, pg); err != nil {
				return err
			}
		}
		return pg.Exec(ctx, c.settings()).Close()
	}
	return conn
}

// settings are those of the relay's sessions, as SQL.
func (c Config) settings() string {
	var sql strings.Builder
	milliseconds := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	for name, value := range map[string]string{
		// A plan that was made while the table was empty must not read all of it when it is full.
		"enable_seqscan":    "off",
		"enable_bitmapscan": "off",
		"enable_hashjoin":   "off",
		"enable_mergejoin":  "off",
		"jit":               "off",
		// A relay that was frozen, or whose machine is gone, gives its keys back.
		"idle_in_transaction_session_timeout": milliseconds(c.BatchTimeout + c.DeliveryTimeout + settleLimit),
		"statement_timeout":                   milliseconds(2 * settleLimit),
		"tcp_keepalives_idle":                 "10",
		"tcp_keepalives_interval":             "5",
		"tcp_keepalives_count":                "3",
	} {
		fmt.Fprintf(&sql, "SET %s = '%s';", name, value)
	}
	return sql.String()
}
