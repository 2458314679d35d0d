package conformance

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
)

const (
	// workers is how many write at the same time.
	workers = 32
	// operationLimit bounds one operation, far above what a healthy store on a loaded machine takes.
	operationLimit = 30 * time.Second
	// maxDelay bounds the pause of a worker between two of its messages to the store.
	maxDelay = 2 * time.Millisecond
)

// Register is a guarded store as one worker sees it: one value and one mark per resource.
type Register interface {
	// Write writes the value through the guard and returns the guard's answer as it is.
	Write(ctx context.Context, resource string, token guard.Token, value string) error
	// Read returns the value and the mark, from one moment unless [Store.SeparateMark] is set, and the zero State for a resource that was
	// never written.
	Read(ctx context.Context, resource string) (State, error)
}

// State is what a resource holds.
type State struct {
	Value string
	Mark  guard.Token
}

// Store says how the suite reaches a guarded store.
type Store struct {
	// Address is where the store listens, in TCP.
	Address string
	// Open connects one more worker to the store through the address, which is that of a line of the suite or Address itself.
	// What is opened is closed with tb.Cleanup. The names of resources are lower-case letters, digits and hyphens.
	Open func(tb testing.TB, address string) Register
	// SeparateMark says that Read cannot take value and mark from the same moment.
	SeparateMark bool
	// Uncertain says that a crash can leave the new mark with the old value.
	Uncertain bool
}

// Run is the suite.
func Run(t *testing.T, store Store) {
	t.Run("Marks", func(t *testing.T) { testMarks(t, store) })
	t.Run("Crash", func(t *testing.T) { testCrash(t, store) })
	crew := hire(t, store)
	t.Run("Concurrent", func(t *testing.T) { testConcurrent(t, crew) })
	t.Run("EqualTokens", func(t *testing.T) { testEqualTokens(t, crew) })
	t.Run("Linearizable", func(t *testing.T) { testLinearizable(t, crew) })
	t.Run("Property", func(t *testing.T) { testProperty(t, crew) })
}

// crew is as many workers as can write at the same time, each with its own line to the store.
type crew struct {
	store     Store
	lines     []*line
	registers []Register
}

func hire(t *testing.T, store Store) *crew {
	c := &crew{store: store}
	for range workers {
		l := newLine(t, store.Address)
		c.lines = append(c.lines, l)
		c.registers = append(c.registers, store.Open(t, l.address()))
	}
	return c
}

// delay makes every line pause up to so long between two messages to the store.
func (c *crew) delay(limit time.Duration) {
	for _, l := range c.lines {
		l.delay(limit)
	}
}

func freshResource() string { return "r-" + strings.ToLower(rand.Text()) }

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), operationLimit)
	t.Cleanup(cancel)
	return ctx
}
