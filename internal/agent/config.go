package agent

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// Config is what one agent process is told about its attempt.
type Config struct {
	Server       string // host:port of the API server
	Namespace    string
	Lease        string
	PodName      string // the holder's identity
	PodUID       string
	NodeName     string
	Token        fencing.Token
	Timing       fencing.Timing
	FileWait     time.Duration // how long a signal or a renewal waits for a file
	StopGrace    time.Duration
	AttemptLimit time.Duration // from claim to end; 0: not bounded
	TaskDeadline time.Time     // when the task's total time is over, which the controller sees to; zero: it is not bounded
	// OnRenewalFailure is what to do when the term cannot be renewed.
	OnRenewalFailure holder.OnRenewalFailure
	// Heartbeat is what keeps the lease renewed.
	Heartbeat holder.Heartbeat

	// What the command finds in its environment, and at its socket too.
	Task           string
	Attempt        int64
	IdempotencyKey string

	TokenPath      string
	CAPath         string
	ResultPath     string
	CancelPath     string // a file that says why the command is told to stop
	CheckpointPath string // a file for the next attempt
	SocketPath     string // where the command reaches the agent
	TerminationLog string
	CgroupRoot     string
}

// Claim names this process. nonce is random and new for every process.
func (c Config) Claim(nonce string) fencing.Claim {
	return holder.ClaimOf(nonce, c.NodeName, c.PodUID)
}

func (c Config) leaseURL() string {
	return "https://" + c.Server + "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(c.Namespace) +
		"/leases/" + url.PathEscape(c.Lease)
}

// ConfigFrom reads the settings that the operator put into the Pod. The error names everything that is wrong.
func ConfigFrom(getenv func(string) string) (Config, error) {
	var errs []error
	text := func(name string) string {
		value := getenv(name)
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is not set", name))
		}
		return value
	}
	number := func(name string, least int64) int64 {
		value, err := strconv.ParseInt(text(name), 10, 64)
		if err == nil && value < least {
			err = fmt.Errorf("%d is below %d", value, least)
		}
		if err != nil && getenv(name) != "" {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		return value
	}
	cfg := Config{
		Server:           net.JoinHostPort(text("KUBERNETES_SERVICE_HOST"), text("KUBERNETES_SERVICE_PORT")),
		Namespace:        text(env.Namespace),
		Lease:            text(env.AgentLease),
		PodName:          text(env.AgentPodName),
		PodUID:           text(env.AgentPodUID),
		NodeName:         text(env.AgentNodeName),
		Token:            fencing.Token(number(env.FencingToken, 1)),
		Timing:           fencing.TimingFor(seconds(number(env.AgentDurationSeconds, 1))),
		FileWait:         fileWait,
		StopGrace:        seconds(number(env.AgentStopGrace, 0)),
		AttemptLimit:     seconds(number(env.AgentAttemptSeconds, 0)),
		OnRenewalFailure: holder.OnRenewalFailure(text(env.AgentOnRenewalFailure)),
		Heartbeat:        holder.Heartbeat(text(env.AgentHeartbeat)),
		Task:             getenv(env.Task),
		IdempotencyKey:   getenv(env.IdempotencyKey),
		TokenPath:        env.TokenPath,
		CAPath:           env.CAPath,
		ResultPath:       env.ResultPath,
		CancelPath:       env.CancelPath,
		CheckpointPath:   env.CheckpointPath,
		SocketPath:       env.SocketPath,
		TerminationLog:   env.TerminationLog,
		CgroupRoot:       "/sys/fs/cgroup",
	}
	if value := getenv(env.AgentTaskDeadline); value != "" {
		at, err := time.Parse(time.RFC3339, value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", env.AgentTaskDeadline, err))
		}
		cfg.TaskDeadline = at
	}
	cfg.Attempt, _ = strconv.ParseInt(getenv(env.Attempt), 10, 64) // for the command; nothing here depends on it
	switch cfg.Heartbeat {
	case holder.Process, holder.Application, "": // the last is reported already
	default:
		errs = append(errs, fmt.Errorf("%s: %q is neither %s nor %s", env.AgentHeartbeat, cfg.Heartbeat, holder.Process, holder.Application))
	}
	switch cfg.OnRenewalFailure {
	case holder.Fence, holder.Continue, "": // the last is reported already
	default:
		errs = append(errs, fmt.Errorf("%s: %q is neither %s nor %s", env.AgentOnRenewalFailure, cfg.OnRenewalFailure, holder.Fence, holder.Continue))
	}
	return cfg, errors.Join(errs...)
}

// seconds converts, and clamps what would overflow.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(365*24*time.Hour/time.Second))) * time.Second
}

// ChildEnv is the environment of the command: everything but the agent's own settings, and what is known at its start only.
func ChildEnv() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, env.AgentPrefix) && !strings.HasPrefix(entry, env.Deadline+"=") {
			kept = append(kept, entry)
		}
	}
	return kept
}
