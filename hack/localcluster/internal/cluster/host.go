package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// hostDirs are paths that kubelet, containerd, CNI and mount(8) insist on. Each node sees directories of its own there; the host
// needs the empty mount points.
var hostDirs = []string{"/var/lib/kubelet", "/var/log/containers", "/run/containerd", "/run/mount", "/var/lib/cni"}

// hostSettings are kernel settings of the whole machine that the kubelet changes.
var hostSettings = []string{
	"/proc/sys/kernel/keys/root_maxbytes", "/proc/sys/kernel/keys/root_maxkeys",
	"/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops", "/proc/sys/vm/overcommit_memory",
}

// hostState is what `down` gives back to the machine.
type hostState struct {
	MadeDirs []string          `json:"madeDirs"`
	Settings map[string]string `json:"settings"`
}

// prepareHost notes the machine's state first and changes it then, so that a crash in between loses nothing.
func (c *Cluster) prepareHost() error {
	state := hostState{Settings: map[string]string{}}
	for _, dir := range hostDirs {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			state.MadeDirs = append(state.MadeDirs, dir)
		}
	}
	for _, path := range hostSettings {
		if content, err := os.ReadFile(path); err == nil {
			state.Settings[path] = strings.TrimSpace(string(content))
		}
	}
	content, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode the machine's state: %w", err)
	}
	if err := os.WriteFile(c.hostBefore(), content, 0o600); err != nil {
		return fmt.Errorf("note the machine's state: %w", err)
	}
	for _, dir := range state.MadeDirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	for _, n := range c.Nodes {
		for _, bind := range n.binds() {
			if err := os.MkdirAll(bind.From, 0o755); err != nil {
				return fmt.Errorf("make %s: %w", bind.From, err)
			}
		}
	}
	return nil
}

// restoreHost sets the kernel settings back and removes the mount points that we made, if they are empty.
func (c *Cluster) restoreHost() error {
	content, err := os.ReadFile(c.hostBefore())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the machine's earlier state: %w", err)
	}
	var state hostState
	if json.Unmarshal(content, &state) != nil {
		return nil // we were killed while we wrote it, before any change
	}
	for path, value := range state.Settings {
		current, err := os.ReadFile(path)
		if err != nil || strings.TrimSpace(string(current)) == value || !slices.Contains(hostSettings, path) {
			continue
		}
		if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
			return fmt.Errorf("set %s back: %w", path, err)
		}
	}
	for _, dir := range state.MadeDirs {
		if slices.Contains(hostDirs, dir) {
			_ = os.Remove(dir)
		}
	}
	return nil
}
