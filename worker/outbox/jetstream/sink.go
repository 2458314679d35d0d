package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/cloudevents"
)

// Sink is an [outbox.Sink].
type Sink struct {
	stream jetstream.JetStream
	prefix string
}

// New publishes on the connection, to subjects that begin with prefix, such as "outbox.". Streams are made by whoever runs NATS.
func New(conn *nats.Conn, prefix string) (*Sink, error) {
	stream, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return &Sink{stream: stream, prefix: prefix}, nil
}

// Deliver publishes the event and waits until the stream has it.
func (s *Sink) Deliver(ctx context.Context, e outbox.Event) error {
	subject := s.prefix + e.Type
	if !isSubject(subject) {
		return outbox.Rejected(fmt.Errorf("%q is no subject", subject))
	}
	message := &nats.Msg{Subject: subject, Data: e.Data, Header: nats.Header{}}
	for name, value := range cloudevents.Attributes(e) {
		message.Header.Set("ce-"+name, cloudevents.Encode(value))
	}
	message.Header.Set("content-type", e.DataContentType)
	// The relay tries again, so the client need not: a subject without a stream answers at once.
	_, err := s.stream.PublishMsg(ctx, message, jetstream.WithMsgID(e.ID), jetstream.WithRetryAttempts(0))
	return classify(err)
}

// classify: what the server says about the message is a failure on the event, everything else is an outage.
func classify(err error) error {
	var answer *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return outbox.Rejected(err)
	case errors.As(err, &answer) && answer.Code < 500:
		return err
	default:
		return outbox.Unavailable(err)
	}
}

// isSubject: no wildcards, spaces or empty tokens.
func isSubject(s string) bool {
	for _, token := range strings.Split(s, ".") {
		if token == "" || token == "*" || token == ">" || strings.ContainsAny(token, " \t\r\n") {
			return false
		}
	}
	return true
}
