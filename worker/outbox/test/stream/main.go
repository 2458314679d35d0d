// Command stream is the receiver's side of the outbox's end-to-end test, on a NATS server that somebody else runs:
//
//	stream make      # a stream of the subjects outbox.>
//	stream read      # what is in it, oldest first: a JSON object a line, with key, id, subject and data
//
// NATS_URL says where the server is; its certificate is checked against SSL_CERT_FILE. The stream drops repeats within a tenth of
// a second only, the least that NATS takes, so that later ones can be seen.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	name     = "OUTBOX"
	patience = 20 * time.Second
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stream:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	conn, err := nats.Connect(os.Getenv("NATS_URL"), nats.Timeout(patience))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "make":
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{"outbox.>"}, Duplicates: 100 * time.Millisecond})
		return err
	case len(args) == 1 && args[0] == "read":
		return read(ctx, js)
	default:
		return errors.New("usage: stream make | read")
	}
}

func read(ctx context.Context, js jetstream.JetStream) error {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	out := json.NewEncoder(os.Stdout)
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		message, err := stream.GetMsg(ctx, seq)
		if err != nil {
			return err
		}
		err = out.Encode(map[string]string{"key": message.Header.Get("ce-partitionkey"), "id": message.Header.Get("ce-id"),
			"subject": message.Subject, "data": string(message.Data)})
		if err != nil {
			return err
		}
	}
	return nil
}
