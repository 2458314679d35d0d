package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"
)

// Limits of an event. The table has the same ones.
const (
	MaxID         = 128     // bytes, also of Type
	MaxKey        = 512     // bytes, also of Source and Subject
	MaxData       = 1 << 20 // bytes
	MaxExtensions = 16
	MaxExtension  = 512 // bytes of one value
)

// Event is one thing that happened. The names are those of CloudEvents 1.0.
type Event struct {
	// ID is the same in every delivery. Empty: a random one is made when the event is enqueued. Who picks ids must not use one twice.
	ID string
	// Key is what order exists within, such as the number of an order. Empty: the event is alone, and its id becomes its key.
	Key string
	// Source says who speaks, a URI reference such as /shop/orders. Required.
	Source string
	// Type says what happened, such as com.example.order.shipped. Required.
	Type string
	// Subject is what it happened to. Optional.
	Subject string
	// Time is when it happened. Zero: when the transaction began.
	Time time.Time
	// DataContentType is the media type of Data. Empty: application/json.
	DataContentType string
	Data            []byte
	// Extensions are further attributes, such as traceparent. Names are 1 to 20 lower-case letters and digits; those that CloudEvents or
	// this package uses are refused.
	Extensions map[string]string

	// Sequence rises within a key, with gaps. It is set by the store, and ignored when an event is enqueued.
	Sequence int64
	// Attempts is how many deliveries have failed and were counted. It is set by the store.
	Attempts int
}

// Sink delivers events. A nil error means that the event is safe with the receiver: it is forgotten here. Deliver is called
// by several goroutines for different keys, never by two at once for one key, and must heed its context.
type Sink interface {
	Deliver(ctx context.Context, event Event) error
}

// SinkFunc is a function as a sink.
type SinkFunc func(ctx context.Context, event Event) error

// Deliver calls the function.
func (f SinkFunc) Deliver(ctx context.Context, event Event) error { return f(ctx, event) }

// Null takes everything and keeps nothing, for measurements.
var Null Sink = SinkFunc(func(context.Context, Event) error { return nil })

// NewID is an id that nobody else makes.
func NewID() string { return rand.Text() }

var (
	extensionName = regexp.MustCompile(`^[a-z0-9]{1,20}$`)
	taken         = map[string]bool{"id": true, "source": true, "specversion": true, "type": true, "datacontenttype": true,
		"subject": true, "time": true, "data": true, "sequence": true, "partitionkey": true}
)

// Check says what is wrong with an event that is to be enqueued.
func (e Event) Check() error {
	var problems []error
	text := func(name, value string, limit int, required bool) {
		switch {
		case required && value == "":
			problems = append(problems, fmt.Errorf("%s is required", name))
		case len(value) > limit:
			problems = append(problems, fmt.Errorf("%s has %d bytes, at most %d are allowed", name, len(value), limit))
		case !isText(value):
			problems = append(problems, fmt.Errorf("%s holds a control character or is not UTF-8", name))
		}
	}
	text("id", e.ID, MaxID, false)
	text("key", e.Key, MaxKey, false)
	text("source", e.Source, MaxKey, true)
	text("type", e.Type, MaxID, true)
	text("subject", e.Subject, MaxKey, false)
	text("datacontenttype", e.DataContentType, MaxID, false)
	if len(e.Data) > MaxData {
		problems = append(problems, fmt.Errorf("data has %d bytes, at most %d are allowed: store it elsewhere and send its name", len(e.Data), MaxData))
	}
	if len(e.Extensions) > MaxExtensions {
		problems = append(problems, fmt.Errorf("%d extensions, at most %d are allowed", len(e.Extensions), MaxExtensions))
	}
	for name, value := range e.Extensions {
		if !extensionName.MatchString(name) || taken[name] {
			problems = append(problems, fmt.Errorf("extension %q: the name is taken, or not of 1 to 20 lower-case letters and digits", name))
		}
		text("extension "+name, value, MaxExtension, true)
	}
	return errors.Join(problems...)
}

// isText: CloudEvents forbids control characters in attributes, and PostgreSQL the zero byte in text.
func isText(s string) bool {
	for _, r := range s {
		if r < ' ' || r >= 0x7f && r <= 0x9f {
			return false
		}
	}
	return utf8.ValidString(s)
}
