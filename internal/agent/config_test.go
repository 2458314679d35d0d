package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

func settings() map[string]string {
	return map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443",
		env.Namespace: "ns", env.FencingToken: "17592186044417", env.AgentLease: "lh-1", env.AgentPodName: "p", env.AgentPodUID: "u",
		env.AgentNodeName: "n", env.AgentDurationSeconds: "30", env.AgentStopGrace: "40",
		env.AgentOnRenewalFailure: "Continue", env.AgentAttemptSeconds: "0",
		env.AgentHeartbeat: "Application", env.Task: "t", env.Attempt: "3", env.IdempotencyKey: "k",
	}
}

func TestConfigFrom(t *testing.T) {
	tests := map[string]struct {
		change  map[string]string
		wantErr string
	}{
		"complete":          {nil, ""},
		"no lease":          {map[string]string{env.AgentLease: ""}, env.AgentLease + " is not set"},
		"no token":          {map[string]string{env.FencingToken: ""}, env.FencingToken + " is not set"},
		"token zero":        {map[string]string{env.FencingToken: "0"}, env.FencingToken + ": 0 is below 1"},
		"token no number":   {map[string]string{env.FencingToken: "1e3"}, env.FencingToken},
		"duration negative": {map[string]string{env.AgentDurationSeconds: "-1"}, "below 1"},
		"deadline unread":   {map[string]string{env.AgentTaskDeadline: "tomorrow"}, env.AgentTaskDeadline + `: parsing time "tomorrow"`},
		"policy unknown":    {map[string]string{env.AgentOnRenewalFailure: "Pause"}, `"Pause" is neither Fence nor Continue`},
		"heartbeat unknown": {map[string]string{env.AgentHeartbeat: "Sometimes"}, `"Sometimes" is neither Process nor Application`},
		"no API server":     {map[string]string{"KUBERNETES_SERVICE_HOST": ""}, "KUBERNETES_SERVICE_HOST is not set"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			values := settings()
			for k, v := range tc.change {
				values[k] = v
			}
			got, err := ConfigFrom(func(name string) string { return values[name] })
			if (err != nil) != (tc.wantErr != "") || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			if err == nil && (got.Token != testToken || got.Timing != fencing.TimingFor(30*time.Second) || got.StopGrace != 40*time.Second || got.FileWait != fileWait || got.OnRenewalFailure != holder.Continue ||
				got.Heartbeat != holder.Application || got.Task != "t" || got.Attempt != 3 || got.IdempotencyKey != "k") {
				t.Errorf("%+v", got)
			}
		})
	}
	if _, err := ConfigFrom(func(string) string { return "" }); strings.Count(err.Error(), "is not set") != 13 {
		t.Errorf("everything that is wrong is named at once, once: %v", err)
	}
}

func TestLeaseURL(t *testing.T) {
	tests := map[string]struct{ host, want string }{
		"IPv4": {"10.0.0.1", "https://10.0.0.1:443/apis/coordination.k8s.io/v1/namespaces/ns/leases/lh-1"},
		"IPv6": {"fd00::1", "https://[fd00::1]:443/apis/coordination.k8s.io/v1/namespaces/ns/leases/lh-1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			values := settings()
			values["KUBERNETES_SERVICE_HOST"] = tc.host
			cfg, err := ConfigFrom(func(name string) string { return values[name] })
			must(t, err)
			if got := cfg.leaseURL(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestTheLargestClaimFitsThePolicy(t *testing.T) {
	cfg := Config{NodeName: strings.Repeat("n", 253), PodUID: "01234567-89ab-cdef-0123-456789abcdef"}
	claim := cfg.Claim("ABCDEFGHIJKLMNOPQRSTUVWXYZ").String()
	if len(claim) > 256 || !strings.HasSuffix(claim, "/"+cfg.PodUID) {
		t.Errorf("%d bytes: %s", len(claim), claim)
	}
}

func TestChildEnv(t *testing.T) {
	t.Setenv(env.AgentLease, "lh-1")
	t.Setenv(env.Task, "t")
	t.Setenv("MINE", "a=b")
	got := strings.Join(ChildEnv(), "\n")
	if strings.Contains(got, env.AgentPrefix) || !strings.Contains(got, env.Task+"=t") || !strings.Contains(got, "MINE=a=b") {
		t.Errorf("%s", got)
	}
}
