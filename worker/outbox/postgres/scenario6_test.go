package postgres_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/cloudevents"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// broker is an HTTP receiver that can be cut off: its listener is closed and its connections are reset.
type broker struct {
	t       *testing.T
	address string
	server  *httptest.Server

	mu  sync.Mutex
	ids []string // in the order of arrival
}

func (b *broker) connect() {
	b.t.Helper()
	b.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ids = append(b.ids, r.Header.Get("ce-id"))
		w.WriteHeader(http.StatusAccepted)
	}))
	if b.address != "" {
		listener, err := listen(b.address)
		if err != nil {
			b.t.Fatal(err)
		}
		_ = b.server.Listener.Close()
		b.server.Listener = listener
	}
	b.address = b.server.Listener.Addr().String()
	b.server.Start()
}

func (b *broker) cutOff() {
	b.server.CloseClientConnections()
	b.server.Close()
}

func (b *broker) received() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.ids...)
}

// TestScenario6OutboxWhileTheBrokerIsCutOff: each user is upgraded and the event recorded in one transaction, with the broker away.
// Nothing is lost, and when it is back each event arrives with its id, those of one user in order.
func TestScenario6OutboxWhileTheBrokerIsCutOff(t *testing.T) {
	b := newBox(t)
	b.exec(`CREATE TABLE users (id int PRIMARY KEY, level int NOT NULL DEFAULT 0)`)
	b.exec(`INSERT INTO users SELECT generate_series(1, 10)`)
	receiver := &broker{t: t}
	receiver.connect()
	target := url.URL{Scheme: "http", Host: receiver.address}
	sink, err := cloudevents.New(cloudevents.Config{URL: target.String()})
	if err != nil {
		t.Fatal(err)
	}
	config := b.config(sink)
	outages := make(chan struct{}, 1000)
	config.Hooks.Round = func(r postgres.Round) {
		if r.Outage {
			select {
			case outages <- struct{}{}:
			default:
			}
		}
	}
	start(t, config)
	upgrade := func(user int) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			var level int
			if err := tx.QueryRow(t.Context(), "UPDATE users SET level = level + 1 WHERE id = $1 RETURNING level", user).Scan(&level); err != nil {
				return err
			}
			return postgres.Enqueue(t.Context(), tx, outbox.Event{ID: fmt.Sprintf("user-%d-%d", user, level), Key: fmt.Sprintf("user-%d", user),
				Source: "/users", Type: "com.example.UserUpgraded", Data: fmt.Appendf(nil, `{"level":%d}`, level)})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	upgrade(1)
	b.drained()
	receiver.cutOff()
	for range 5 {
		for user := range 10 {
			upgrade(user + 1) // the business goes on
		}
	}
	for range 5 { // more than MaxAttempts
		<-outages
	}
	if n := b.count("leasehold_outbox"); n != 50 {
		t.Errorf("%d events wait", n)
	}
	receiver.connect()
	b.drained()
	time.Sleep(50 * time.Millisecond)

	firsts, seen := map[string][]string{}, map[string]bool{}
	for _, id := range receiver.received() {
		if user := id[:len(id)-2]; !seen[id] {
			seen[id] = true
			firsts[user] = append(firsts[user], id)
		}
	}
	for user := range 10 {
		key, levels := fmt.Sprintf("user-%d", user+1), 5
		if user == 0 {
			levels = 6
		}
		if want := numbered(key, levels); !reflect.DeepEqual(firsts[key], want) {
			t.Errorf("got %v, want %v", firsts[key], want)
		}
	}
	if b.count("leasehold_outbox_parked") != 0 {
		t.Error("the outage parked events")
	}
}
