// Command outbox-relay takes the events of a PostgreSQL outbox to a sink, until it is told to stop. See docs/guides/outbox.md.
//
//	outbox-relay -sink http -url https://events.example.com/ingest
//	outbox-relay -print-schema | psql -v ON_ERROR_STOP=1 -1
//
// Every flag can also be set as an environment variable: OUTBOX_ and its name in upper case, with _ for -. What is secret can
// only be set there: OUTBOX_DATABASE_URL (or the variables of libpq, such as PGHOST and PGPASSWORD), OUTBOX_AUTHORIZATION (the HTTP
// header of that name) and OUTBOX_NATS_CREDENTIALS_FILE. A receiver's URL that holds a password belongs into OUTBOX_URL.
//
// The program brings the public certificate authorities along, for images without any; SSL_CERT_FILE names others.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	_ "golang.org/x/crypto/x509roots/fallback" // an image from scratch has no authorities, and https receivers need some

	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

var version = "dev" // set by the build

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	sink, url, subjectPrefix, listen string
	printSchema                      bool
	relay                            postgres.Config
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	log := slog.New(slog.NewJSONHandler(stderr, nil)).With("logger", "outbox-relay")
	o, err := parse(args, getenv, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		log.Error("Cannot begin", "error", err)
		return exitUsage
	}
	if o.printSchema {
		_, _ = io.WriteString(stdout, postgres.Schema)
		return exitOK
	}
	o.relay.Log = log
	if err := relay(ctx, o, getenv, log); err != nil {
		log.Error("Ended", "error", err)
		return exitError
	}
	return exitOK
}

func parse(args []string, getenv func(string) string, stderr io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("outbox-relay", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.sink, "sink", "", "where events go: http, nats, or null, which throws them away")
	flags.StringVar(&o.url, "url", "", "URL of the receiver: http(s)://... or nats://...")
	flags.StringVar(&o.subjectPrefix, "subject-prefix", "outbox.", "what NATS subjects begin with; the event's type follows")
	flags.StringVar(&o.listen, "listen", ":8080", "address of /healthz, /readyz and /metrics; empty: none")
	flags.BoolVar(&o.printSchema, "print-schema", false, "print the SQL that makes the tables, and end")
	flags.IntVar(&o.relay.Batch, "batch", 100, "events claimed at once, and at most repeated after a crash; 1 to 1000")
	flags.IntVar(&o.relay.Concurrency, "concurrency", 16, "keys of a batch that are delivered at once; 1 to 1000")
	flags.IntVar(&o.relay.MaxAttempts, "max-attempts", 20, "counted failures that park an event; 1 to 1000")
	flags.IntVar(&o.relay.VacuumEvery, "vacuum-every", 20_000, "events after which the table is vacuumed; -1: never")
	flags.DurationVar(&o.relay.Poll, "poll", time.Second, "how often to look without being woken")
	flags.DurationVar(&o.relay.DeliveryTimeout, "delivery-timeout", 10*time.Second, "limit of one delivery")
	flags.DurationVar(&o.relay.BatchTimeout, "batch-timeout", 30*time.Second, "no further delivery of a batch is started after this")
	var problems []error
	flags.VisitAll(func(f *flag.Flag) {
		name := "OUTBOX_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value := getenv(name); value != "" {
			if err := f.Value.Set(value); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
			}
		}
	})
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	var err error
	if o.relay.Database, err = pgx.ParseConfig(getenv("OUTBOX_DATABASE_URL")); err != nil {
		problems = append(problems, errors.New("OUTBOX_DATABASE_URL cannot be read")) // err may quote the password
	}
	return o, errors.Join(problems...)
}

// relay runs until ctx is done. The health endpoint ends last, so that a relay that is stopping is still seen alive.
func relay(ctx context.Context, o *options, getenv func(string) string, log *slog.Logger) error {
	sink, closeSink, err := openSink(o, getenv)
	if err != nil {
		return err
	}
	defer closeSink()
	o.relay.Sink = sink
	watch := newWatch(time.Now, o.relay)
	o.relay.Hooks = watch.hooks()
	r, err := postgres.New(o.relay)
	if err != nil {
		return err
	}
	if o.listen != "" {
		listener, err := net.Listen("tcp", o.listen)
		if err != nil {
			return fmt.Errorf("-listen (another port, or none: -listen=): %w", err)
		}
		server := &http.Server{Handler: watch.handler(), ReadHeaderTimeout: 5 * time.Second}
		go func() { _ = server.Serve(listener) }()
		defer func() { _ = server.Close() }()
		log.Info("Serving health and metrics", "address", listener.Addr().String())
	}
	log.Info("Relaying", "sink", o.sink, "version", version)
	return r.Run(ctx)
}
