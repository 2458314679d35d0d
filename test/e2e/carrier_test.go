package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/test/faults/postgres"
)

const (
	// hostAddress is where Pods reach this machine: the local cluster's bridge.
	hostAddress = "10.89.0.1"
	loopback    = "127.0.0.1"
)

// carrier is the external API of worker/examples/shipment, a process beside the cluster with a PostgreSQL of its own.
type carrier struct {
	url string
	// called is closed with the first call that asks to ship; it is lost once resume is called.
	called chan struct{}
	hold   io.WriteCloser

	mu     sync.Mutex
	posts  []post
	lookUp int
}

// fault is what becomes of the first call.
type fault string

const (
	// answerLost: it has its effect, and the connection is reset before the answer.
	answerLost fault = "answer"
	// requestLost: the connection is reset before it has any effect.
	requestLost fault = "request"
)

// post is a call that asked to ship.
type post struct {
	key   string
	token int64
}

// database is one PostgreSQL for all carriers, each of which has a database in it; the end of the tests stops it.
var database = sync.OnceValues(func() (*postgres.Server, error) {
	ctx, cancel := contextOf(patience)
	defer cancel()
	return postgres.Start(ctx, os.Stderr, loopback)
})

var (
	hasDatabase atomic.Bool
	carriers    atomic.Int32
)

func (s *story) startCarrier(first fault) *carrier {
	s.Helper()
	s.ok(loadExamples())
	c := &carrier{called: make(chan struct{})}
	cmd := exec.Command(filepath.Join(bin, "examples-carrier"), "-listen", hostAddress+":0", "-lose", string(first), "-hold")
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.newDatabase())
	cmd.Stderr = s.Output()
	out, err := cmd.StdoutPipe()
	s.ok(err)
	c.hold, err = cmd.StdinPipe()
	s.ok(err)
	s.ok(cmd.Start())
	lines := bufio.NewReader(out)
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	listening, err := lines.ReadBytes('\n')
	s.ok(err)
	var line struct{ URL string }
	s.ok(json.Unmarshal(listening, &line))
	c.url = line.URL
	go c.listen(lines)
	return c
}

func (s *story) newDatabase() string {
	s.Helper()
	server, err := database()
	s.ok(err)
	hasDatabase.Store(true)
	conn, err := pgx.Connect(s.ctx, server.URL(loopback))
	s.ok(err)
	defer func() { _ = conn.Close(context.Background()) }()
	name := fmt.Sprintf("carrier%d", carriers.Add(1))
	_, err = conn.Exec(s.ctx, "CREATE DATABASE "+name)
	s.ok(err)
	u, err := url.Parse(server.URL(loopback))
	s.ok(err)
	u.Path = name
	return u.String()
}

func stopDatabase() error {
	if !hasDatabase.Load() {
		return nil
	}
	server, err := database()
	if err != nil {
		return err
	}
	return server.Stop()
}

// listen takes down the calls, as the carrier logs them.
func (c *carrier) listen(lines *bufio.Reader) {
	for {
		line, err := lines.ReadBytes('\n')
		var call struct {
			Event, Key string
			Token      int64
		}
		if err != nil || json.Unmarshal(line, &call) != nil {
			return
		}
		c.mu.Lock()
		switch call.Event {
		case "ship":
			if c.posts = append(c.posts, post{call.Key, call.Token}); len(c.posts) == 1 {
				close(c.called)
			}
		case "find":
			c.lookUp++
		}
		c.mu.Unlock()
	}
}

// resume lets the first call be lost.
func (s *story) resume(c *carrier) {
	s.Helper()
	_, err := io.WriteString(c.hold, "go on\n")
	s.ok(err)
}

// seen are the calls so far: those that asked to ship, how many looked up, and how many shipments there are.
func (s *story) seen(c *carrier) (posts []post, lookUps, shipments int) {
	s.Helper()
	client := http.Client{Timeout: time.Minute}
	response, err := client.Get(c.url + "/shipments")
	s.ok(err)
	defer response.Body.Close() //nolint:errcheck // read
	var answer struct{ Count int }
	s.ok(json.NewDecoder(response.Body).Decode(&answer))
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(posts, c.posts...), c.lookUp, answer.Count
}
