package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// These make this test binary the relay, or print how many authorities it trusts.
const (
	asRelay       = "TEST_IS_OUTBOX_RELAY"
	asTrustReport = "TEST_IS_TRUST_REPORT"
)

func TestMain(m *testing.M) {
	if os.Getenv(asRelay) != "" {
		main()
	}
	if os.Getenv(asTrustReport) != "" {
		pool, err := x509.SystemCertPool()
		fmt.Println(err == nil && !pool.Equal(x509.NewCertPool()))
		os.Exit(0)
	}
	pgtest.Main(m)
}

func TestAnImageWithoutAuthoritiesTrustsThePublicOnes(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{asTrustReport + "=1", "SSL_CERT_FILE=/nowhere", "SSL_CERT_DIR=/nowhere"}
	if said, err := cmd.Output(); err != nil || string(said) != "true\n" {
		t.Errorf("%q, %v", said, err)
	}
}

func command(ctx context.Context, database string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asRelay+"=1", "OUTBOX_DATABASE_URL="+database)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// receiver remembers the ids that each life of the relay has delivered; the life is the end of the URL.
type receiver struct {
	mu    sync.Mutex
	lives map[int][]string
	order map[string][]int // first deliveries by key: the numbers in the ids
	seen  map[string]bool
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	time.Sleep(time.Millisecond)
	life, _ := strconv.Atoi(path.Base(request.URL.Path))
	id, key := request.Header.Get("ce-id"), request.Header.Get("ce-partitionkey")
	number, _ := strconv.Atoi(strings.TrimPrefix(id, key+"-"))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives[life] = append(r.lives[life], id)
	if !r.seen[id] {
		r.seen[id] = true
		r.order[key] = append(r.order[key], number)
	}
	w.WriteHeader(http.StatusNoContent)
}

// TestARelayThatIsKilledLosesNothing: SIGKILL at random moments, forty times. Repeats of a life are at most one batch.
func TestARelayThatIsKilledLosesNothing(t *testing.T) {
	const kills, keys, batch = 40, 20, 25
	database := pgtest.Database(t, postgres.Schema)
	r := &receiver{lives: map[int][]string{}, order: map[string][]int{}, seen: map[string]bool{}}
	server := httptest.NewServer(r)
	defer server.Close()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	enqueued := 0
	enqueue := func() {
		t.Helper()
		var events []outbox.Event
		for range 5 {
			enqueued++
			for key := range keys {
				name := fmt.Sprintf("k%d", key)
				events = append(events, outbox.Event{ID: fmt.Sprintf("%s-%d", name, enqueued), Key: name, Source: "/test", Type: "t"})
			}
		}
		if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return postgres.Enqueue(t.Context(), tx, events...) }); err != nil {
			t.Fatal(err)
		}
	}
	backlog := func() (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM leasehold_outbox").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	run := func(life int) *exec.Cmd {
		t.Helper()
		cmd := command(context.Background(), database, "-sink", "http", "-url", fmt.Sprintf("%s/%d", server.URL, life), "-batch", strconv.Itoa(batch),
			"-listen", "", "-concurrency", "4")
		cmd.Stderr = os.Stderr
		if testing.Verbose() {
			cmd.Stderr = io.Discard
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	life := 0
	for ; life < kills; life++ {
		for backlog() < 400 {
			enqueue()
		}
		before := len(r.all())
		cmd := run(life)
		for deadline := time.Now().Add(20 * time.Second); len(r.all()) == before && time.Now().Before(deadline); { // it has begun
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	last := run(life)
	for deadline := time.Now().Add(30 * time.Second); backlog() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d events are left", backlog())
		}
	}
	_ = last.Process.Signal(syscall.SIGTERM)
	if err := last.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	r.judge(t, enqueued, keys, batch)
}

func (r *receiver) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, life := range r.lives {
		ids = append(ids, life...)
	}
	return ids
}

func (r *receiver) judge(t *testing.T, enqueued, keys, batch int) {
	t.Helper()
	want := make([]int, enqueued)
	for i := range want {
		want[i] = i + 1
	}
	for key := range keys {
		if got := r.order[fmt.Sprintf("k%d", key)]; !slices.Equal(got, want) {
			t.Errorf("key %d: got %v, want 1 to %d", key, got, enqueued)
		}
	}
	before, repeats, most := map[string]bool{}, 0, 0
	for life := range len(r.lives) {
		again := 0
		for _, id := range r.lives[life] {
			if before[id] {
				again++
			}
			before[id] = true
		}
		repeats, most = repeats+again, max(most, again)
	}
	t.Logf("%d events, %d lives, %d repeats, at most %d in one life (a batch is %d)", len(before), len(r.lives), repeats, most, batch)
	if most > batch {
		t.Errorf("a life repeats %d events", most)
	}
	if repeats == 0 {
		t.Error("no kill hit a batch, so this shows nothing")
	}
}

// TestAnEventThatKillsItsRelayIsFoundAndParked: SIGKILL whenever it is delivered, so that nothing of that round is settled. The second life
// finds it, and the others get through without it.
func TestAnEventThatKillsItsRelayIsFoundAndParked(t *testing.T) {
	for _, concurrency := range []string{"1", "16"} {
		t.Run(concurrency, func(t *testing.T) {
			const others, maxLives = 30, 8
			database := pgtest.Database(t, postgres.Schema)
			conn, err := pgx.Connect(t.Context(), database)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			events := []outbox.Event{{ID: "killer", Key: "a", Source: "/test", Type: "t"}, {ID: "next", Key: "a", Source: "/test", Type: "t"}}
			for i := range others {
				id := fmt.Sprintf("k%d-1", i)
				events = append(events, outbox.Event{ID: id, Key: id, Source: "/test", Type: "t"})
			}
			if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return postgres.Enqueue(t.Context(), tx, events...) }); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var relay *exec.Cmd
			taken := map[string]int{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				id := request.Header.Get("ce-id")
				if taken[id]++; id == "killer" {
					_ = relay.Process.Kill()
				}
				w.WriteHeader(http.StatusNoContent)
			}))
			defer server.Close()
			left := func() (n int) {
				if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM leasehold_outbox").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			for life := 1; left() > 0; life++ {
				if life > maxLives {
					t.Fatalf("after %d lives %d events are left, and the deliveries were %v", maxLives, left(), taken)
				}
				mu.Lock()
				relay = command(t.Context(), database, "-sink", "http", "-url", server.URL, "-listen", "", "-concurrency", concurrency, "-max-attempts", "2")
				err := relay.Start()
				mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() {
					_ = relay.Wait() // killed
					close(ended)
				}()
				for isOver := false; !isOver; {
					select {
					case <-ended:
						isOver = true
					case <-time.After(10 * time.Millisecond):
						if left() == 0 {
							_ = relay.Process.Signal(syscall.SIGTERM)
							<-ended
							isOver = true
						}
					}
				}
				t.Logf("life %d: %d events are left", life, left())
			}
			var attempts, notes int
			if err := conn.QueryRow(t.Context(), `SELECT (SELECT attempts FROM leasehold_outbox_parked WHERE id = 'killer'),
				(SELECT count(*) FROM leasehold_outbox_offered)`).Scan(&attempts, &notes); err != nil || attempts != 2 || notes != 0 {
				t.Errorf("%d attempts, %d notes are left, %v", attempts, notes, err)
			}
			for id, n := range taken {
				if most := map[bool]int{true: 3, false: 2}[id == "killer"]; n > most {
					t.Errorf("%s was delivered %d times", id, n)
				}
			}
			if len(taken) != others+2 {
				t.Errorf("%d events were delivered", len(taken))
			}
		})
	}
}

// TestASecondRelayOfAHostIsToldOfThePort, and needs none.
func TestASecondRelayOfAHostIsToldOfThePort(t *testing.T) {
	database := pgtest.Database(t, postgres.Schema)
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	env := func(name string) string {
		return map[string]string{"OUTBOX_DATABASE_URL": database, "OUTBOX_SINK": "null", "OUTBOX_LISTEN": first.Addr().String()}[name]
	}
	var said bytes.Buffer
	if code := run(t.Context(), nil, env, io.Discard, &said); code != exitError || !strings.Contains(said.String(), "-listen=") {
		t.Errorf("%d: %s", code, said.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	said.Reset()
	if code := run(ctx, []string{"-listen="}, env, io.Discard, &said); code != exitOK {
		t.Errorf("%d: %s", code, said.String())
	}
}

func TestUsage(t *testing.T) {
	tests := map[string]struct {
		args []string
		env  map[string]string
		want int
		says string
	}{
		"help":             {args: []string{"-help"}, want: exitOK, says: "-sink"},
		"no sink":          {want: exitError, says: `-sink is`},
		"unknown flag":     {args: []string{"-x"}, want: exitUsage, says: "not defined"},
		"argument":         {args: []string{"x"}, want: exitUsage, says: "unexpected"},
		"bad variable":     {env: map[string]string{"OUTBOX_BATCH": "many"}, want: exitUsage, says: "OUTBOX_BATCH"},
		"bad batch":        {args: []string{"-sink", "null", "-listen", ""}, env: map[string]string{"OUTBOX_BATCH": "5000"}, want: exitError, says: "5000 is not in"},
		"bad database URL": {env: map[string]string{"OUTBOX_DATABASE_URL": "postgres://u:hunter2@%zz"}, want: exitUsage, says: "cannot be read"},
		"bad URL":          {args: []string{"-sink", "http", "-url", "ftp://u:hunter2@x"}, want: exitError, says: "URL is not"},
		"bad NATS URL":     {args: []string{"-sink", "nats", "-url", "nats://u:hunter2@%zz"}, want: exitError, says: "NATS: invalid"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			got := run(t.Context(), test.args, func(name string) string { return test.env[name] }, &stdout, &stderr)
			if got != test.want || !strings.Contains(stderr.String(), test.says) || strings.Contains(stderr.String(), "hunter2") {
				t.Errorf("%d: %s", got, stderr.String())
			}
		})
	}
	var schema bytes.Buffer
	if code := run(t.Context(), []string{"-print-schema"}, func(string) string { return "" }, &schema, io.Discard); code != exitOK || schema.String() != postgres.Schema {
		t.Errorf("%d, %d bytes", code, schema.Len())
	}
}

func TestHealthAndMetrics(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := newWatch(func() time.Time { return now }, postgres.Config{BatchTimeout: 30 * time.Second})
	get := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		w.handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	check := func(when string, alive, ready int) {
		t.Helper()
		healthz, _ := get("/healthz")
		readyz, _ := get("/readyz")
		if healthz != alive || readyz != ready {
			t.Errorf("%s: %d, %d", when, healthz, readyz)
		}
	}
	hooks := w.hooks()
	check("at the start", 200, 503)
	hooks.Round(postgres.Round{Err: io.EOF})
	check("without a database", 200, 503)
	hooks.Round(postgres.Round{Claimed: 1, Outage: true})
	check("without a sink", 200, 200)
	now = now.Add(2 * time.Minute)
	check("when it hangs", 503, 503)
	hooks.Round(postgres.Round{Err: io.EOF})
	check("when the database went away", 200, 503)
	hooks.Round(postgres.Round{})
	hooks.Delivered(outbox.Event{}, time.Second)
	hooks.Failed(outbox.Event{}, outbox.Park, io.EOF)
	_, metrics := get("/metrics")
	for _, line := range []string{`outbox_delivered_total 1`, `outbox_failed_deliveries_total{verdict="park"} 1`, `outbox_rounds_total{outcome="error"} 2`,
		`outbox_rounds_total{outcome="outage"} 1`, `outbox_rounds_total{outcome="empty"} 1`, `outbox_event_age_seconds_sum 1`} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %s in\n%s", line, metrics)
		}
	}
}

func TestTheProgramServesAndStops(t *testing.T) {
	database := pgtest.Database(t, postgres.Schema)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	env := func(name string) string {
		return map[string]string{"OUTBOX_DATABASE_URL": database, "OUTBOX_SINK": "null"}[name]
	}
	go func() { ended <- run(ctx, []string{"-listen", address}, env, io.Discard, io.Discard) }()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("not ready")
		}
	}
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
