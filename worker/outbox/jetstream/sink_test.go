package jetstream_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsstream "github.com/nats-io/nats.go/jetstream"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/jetstream"
)

// startServer runs the real server in this process, with JetStream on disk.
func startServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true,
		MaxPayload: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("NATS does not start")
	}
	return s
}

func TestJetStream(t *testing.T) {
	s := startServer(t)
	conn, err := nats.Connect(s.ClientURL(), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := natsstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := jetstream.New(conn, "outbox.")
	if err != nil {
		t.Fatal(err)
	}
	deliver := func(e outbox.Event) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return sink.Deliver(ctx, e)
	}
	sold := outbox.Event{ID: "17", Key: "order-1", Source: "/shop", Type: "com.example.sold", Sequence: 42, DataContentType: "text/plain", Data: []byte("hello")}
	if err := deliver(sold); outbox.Classify(err) != outbox.ClassUnavailable || err == nil {
		t.Errorf("without a stream: %v", err)
	}
	kept, err := stream.CreateStream(t.Context(), natsstream.StreamConfig{Name: "OUTBOX", Subjects: []string{"outbox.>"}, MaxMsgSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // the repeats are dropped by the stream
		if err := deliver(sold); err != nil {
			t.Fatal(err)
		}
	}
	info, err := kept.Info(t.Context())
	if err != nil || info.State.Msgs != 1 {
		t.Errorf("%d messages, %v", info.State.Msgs, err)
	}
	message, err := kept.GetLastMsgForSubject(t.Context(), "outbox.com.example.sold")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ce-id": "17", "ce-type": "com.example.sold", "ce-partitionkey": "order-1", "ce-specversion": "1.0",
		"ce-sequence": "00000000000000000042", "content-type": "text/plain", "Nats-Msg-Id": "17"} {
		if got := message.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if string(message.Data) != "hello" {
		t.Errorf("data %q", message.Data)
	}
	large := sold
	large.ID, large.Data = "18", make([]byte, 8192)
	if err := deliver(large); err == nil || outbox.Classify(err) != outbox.ClassFailed {
		t.Errorf("too large for the stream: %v", err)
	}
	large.Data = make([]byte, 1<<17)
	if err := deliver(large); err == nil || outbox.Classify(err) != outbox.ClassRejected {
		t.Errorf("too large for the server: %v", err)
	}
	for _, bad := range []string{"a..b", "a b", "*", strings.Repeat(".", 3)} {
		odd := sold
		odd.Type = bad
		if err := deliver(odd); err == nil || outbox.Classify(err) != outbox.ClassRejected {
			t.Errorf("type %q: %v", bad, err)
		}
	}
	s.Shutdown()
	s.WaitForShutdown()
	if err := deliver(sold); err == nil || outbox.Classify(err) != outbox.ClassUnavailable {
		t.Errorf("without a server: %v", err)
	}
}
