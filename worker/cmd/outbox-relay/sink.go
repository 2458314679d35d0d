package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/nats-io/nats.go"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/cloudevents"
	"github.com/leasehold-io/leasehold/worker/outbox/jetstream"
)

func openSink(o *options, getenv func(string) string) (sink outbox.Sink, closeSink func(), err error) {
	nothing := func() {}
	switch o.sink {
	case "null":
		return outbox.Null, nothing, nil
	case "http":
		header := http.Header{}
		if value := getenv("OUTBOX_AUTHORIZATION"); value != "" {
			header.Set("Authorization", value)
		}
		sink, err := cloudevents.New(cloudevents.Config{URL: o.url, Header: header})
		return sink, nothing, err
	case "nats":
		// Start also while the server is away, and come back however long that takes: the relay waits.
		settings := []nats.Option{nats.Name("outbox-relay"), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
			nats.ReconnectBufSize(-1)} // what cannot be sent now is an error now, not a message later
		if file := getenv("OUTBOX_NATS_CREDENTIALS_FILE"); file != "" {
			settings = append(settings, nats.UserCredentials(file))
		}
		conn, err := nats.Connect(o.url, settings...)
		if err != nil {
			if detail, is := errors.AsType[*url.Error](err); is {
				err = detail.Err // without the URL, which may hold a password
			}
			return nil, nothing, fmt.Errorf("NATS: %w", err)
		}
		sink, err := jetstream.New(conn, o.subjectPrefix)
		return sink, conn.Close, err
	default:
		return nil, nothing, fmt.Errorf("-sink is %q, not http, nats or null", o.sink)
	}
}
