// Command carrier is an external API as they are, for tests and for trying out what becomes of a call whose answer is lost: it ships what it
// is asked to, over PostgreSQL ($DATABASE_URL), and can lose the first call.
//
//	DATABASE_URL=postgres://... carrier -listen 127.0.0.1:8080 -lose answer
//
// It writes a JSON line for every call, the first line says where it listens.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:], os.Getenv("DATABASE_URL"), os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "carrier:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, database string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("carrier", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on")
	lose := flags.String("lose", loseNothing, "what of the first call is lost: answer, request, or nothing")
	hold := flags.Bool("hold", false, "the call that is lost waits, once it had its effect or had none, for a line on standard input")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *lose != loseNothing && *lose != loseAnswer && *lose != loseRequest {
		return fmt.Errorf("-lose is %s or %s, not %q", loseAnswer, loseRequest, *lose)
	}
	db, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := newCarrier(ctx, db)
	if err != nil {
		return err
	}
	s := &server{carrier: c, lose: *lose, resume: released(*hold, in), log: json.NewEncoder(out)}
	return serve(ctx, s, *listen)
}

// released is closed once a call that is held may go on.
func released(isHeld bool, in io.Reader) <-chan struct{} {
	resume := make(chan struct{})
	go func() {
		if isHeld {
			_, _ = bufio.NewReader(in).ReadString('\n') // at its end, too
		}
		close(resume)
	}()
	return resume
}

func serve(ctx context.Context, s *server, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	front := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	s.note(event{Event: "listening", URL: "http://" + listener.Addr().String()})
	context.AfterFunc(ctx, func() { _ = front.Close() })
	if err := front.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}
