package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/test/faults/journal"
	"github.com/leasehold-io/leasehold/test/faults/order"
)

const (
	exitBad     = 1  // ordered to fail
	exitRefused = 3  // the store has seen a higher token
	exitBroken  = 90 // no journal, no payload: nothing that a test plans
)

func main() {
	var o order.Order
	payload, err := os.ReadFile(os.Getenv(env.PayloadFile))
	if err == nil {
		err = json.Unmarshal(payload, &o)
	}
	if err == nil && o.Stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	if err == nil && len(os.Args) == 2 && os.Args[1] == journal.Child {
		err = beat(journal.Child)
	} else if err == nil {
		err = work(o)
	}
	fmt.Fprintln(os.Stderr, "worker:", err)
	os.Exit(exitBroken)
}

// me is this process in the words of its journal.
func me(role string) (journal.Start, error) {
	attempt, err := strconv.Atoi(os.Getenv(env.Attempt))
	if err != nil {
		return journal.Start{}, err
	}
	token, err := strconv.ParseInt(os.Getenv(env.FencingToken), 10, 64)
	if err != nil {
		return journal.Start{}, err
	}
	pod, err := os.Hostname()
	return journal.Start{Task: os.Getenv(env.Task), Attempt: attempt, Token: token, Pod: pod, Role: role, PID: os.Getpid()}, err
}

// beat writes the journal of a child, for ever.
func beat(role string) error {
	start, err := me(role)
	if err != nil {
		return err
	}
	j, err := journal.Open(os.Getenv(order.JournalDirEnv), start)
	for err == nil {
		time.Sleep(journal.Interval)
		err = j.Beat()
	}
	return err
}

// work does what was ordered, and ends the process.
func work(o order.Order) error {
	start, err := me(journal.Main)
	if err != nil {
		return err
	}
	j, err := journal.Open(os.Getenv(order.JournalDirEnv), start)
	if err != nil {
		return err
	}
	child := exec.Command("/proc/self/exe", journal.Child)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		return err
	}
	w := &worker{Order: o, start: start, journal: j, isBad: start.Attempt <= o.Bad && o.Mode != order.Work}
	w.begin = time.Now()
	rows := make(chan struct{}) // one at a time, so that a store that cannot be reached delays no beat
	go func() {
		for range rows {
			w.writeRow(context.Background())
		}
	}()
	var last time.Time
	for ticks := time.Tick(journal.Interval); ; <-ticks {
		if err := j.Beat(); err != nil {
			return err
		}
		w.misbehave()
		if time.Since(last) >= time.Second && (!w.isBad || o.Mode != order.Hang) {
			select {
			case rows <- struct{}{}:
				last = time.Now()
			default:
			}
		}
		if w.isDone() {
			w.exit(0)
		}
	}
}
