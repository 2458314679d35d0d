package outage

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Call is one call that the gateway has answered.
type Call struct {
	Task    string
	Attempt int
	At      time.Time // of its arrival
	Code    int
}

// gateway is the service that the tasks call. It keeps its first callers waiting until all tasks have called, as a service does that
// hangs, and then answers all of them at once: 503, for the length of the outage, and 200 ever after.
type gateway struct {
	tasks  int
	length time.Duration
	url    string
	server http.Server

	mu      sync.Mutex
	waiting map[string]bool // by task
	begun   chan struct{}   // closed when all have called
	begin   time.Time
	calls   []Call
}

func startGateway(l Load) (*gateway, error) {
	listener, err := net.Listen("tcp", l.Listen)
	if err != nil {
		return nil, err
	}
	g := &gateway{tasks: l.Tasks, length: l.Length, url: "http://" + listener.Addr().String(), waiting: map[string]bool{}, begun: make(chan struct{})}
	g.server = http.Server{Handler: g, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := g.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // calls that are not seen cannot be judged
		}
	}()
	return g, nil
}

// ServeHTTP answers one call.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	attempt, err := strconv.Atoi(r.FormValue("attempt"))
	task := r.FormValue("task")
	if err != nil || task == "" {
		http.Error(w, "needs task and attempt", http.StatusBadRequest)
		return
	}
	call := Call{Task: task, Attempt: attempt, At: time.Now()}
	g.arrive(task)
	if !g.isDown(r.Context()) {
		return // the caller has gone while it waited
	}
	call.Code = g.answer(call)
	w.WriteHeader(call.Code)
}

// arrive begins the outage with the last of the tasks.
func (g *gateway) arrive(task string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting[task] = true; len(g.waiting) == g.tasks && g.begin.IsZero() {
		g.begin = time.Now()
		close(g.begun)
	}
}

func (g *gateway) isDown(caller context.Context) bool {
	select {
	case <-g.begun:
		return true
	case <-caller.Done():
		return false
	}
}

// answer is 503 while the outage lasts.
func (g *gateway) answer(c Call) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.Code = http.StatusOK; time.Since(g.begin) < g.length {
		c.Code = http.StatusServiceUnavailable
	}
	g.calls = append(g.calls, c)
	return c.Code
}

// seen is when the outage began, and all calls in the order of their arrival.
func (g *gateway) seen() (begin time.Time, calls []Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls = slices.Clone(g.calls)
	slices.SortFunc(calls, func(a, b Call) int { return a.At.Compare(b.At) })
	return g.begin, calls
}
