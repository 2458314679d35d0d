//go:build linux

// Command agent holds the term of one attempt and runs a worker's command while it does. See docs/agent.md.
//
//	agent install DEST              copy this binary to DEST, for an init container
//	agent -- COMMAND [ARGS...]      run COMMAND; the settings come from LEASEHOLD_AGENT_* and the files of package env
//	agent call METHOD PATH [BODY]   from inside COMMAND: one request to the agent's socket, for images without curl
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/agent"
)

const usage = `usage: agent install DEST
       agent -- COMMAND [ARGS...]
       agent call METHOD PATH [BODY | -]
`

// The agent lives in the worker's container and from its memory. It has little to do, so it collects early and uses few
// threads; the variables that would say otherwise are meant for the command.
const (
	gcPercent  = 50
	maxThreads = 2
)

func main() {
	debug.SetGCPercent(gcPercent)
	runtime.GOMAXPROCS(min(maxThreads, runtime.NumCPU()))
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	switch {
	case len(args) == 2 && args[0] == "install":
		if err := agent.Install(args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "agent: install:", err)
			return 1
		}
		return 0
	case (len(args) == 3 || len(args) == 4) && args[0] == "call":
		if err := agent.Call(os.Getenv(env.Socket), args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "agent: call:", err)
			return 1
		}
		return 0
	case len(args) >= 2 && args[0] == "--":
		return attempt(args[1:])
	default:
		fmt.Fprint(os.Stderr, usage)
		return agent.ExitUsage
	}
}

func attempt(argv []string) int {
	log, flush := agent.NewLog(os.Stderr)
	defer flush()
	slog.SetDefault(log) // net/http has a word now and then
	a, err := build(argv, log)
	if err != nil {
		log.Error("Cannot begin", "error", err)
		return agent.ExitUsage
	}
	return a.Run(context.Background())
}

func build(argv []string, log *slog.Logger) (*agent.Agent, error) {
	signals := make(chan os.Signal, 16)
	for _, sig := range agent.ForwardedSignals() { // first of all: process 1 has no default actions to fall back on
		signal.Notify(signals, sig)
	}
	cfg, err := agent.ConfigFrom(os.Getenv)
	if err != nil {
		return nil, err
	}
	mailbox, err := agent.NewLeaseMailbox(cfg, cfg.Claim(rand.Text()))
	if err != nil {
		return nil, err
	}
	tree, err := agent.NewProcessTree(argv, agent.ChildEnv())
	if err != nil {
		return nil, err
	}
	alarm, err := agent.NewTimerAlarm()
	if err != nil {
		return nil, err
	}
	return &agent.Agent{
		Config:  cfg,
		Mailbox: mailbox,
		Tree:    tree,
		Clock:   agent.SystemClock(time.Now),
		Alarm:   alarm,
		Signals: signals,
		Jitter:  mathrand.Float64,
		Log:     log,
	}, nil
}
