package agent

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

func TestReadResultIsSafe(t *testing.T) {
	tests := map[string]struct {
		make    func(path string) error
		reason  string
		message string
	}{
		"a link to a secret": {func(p string) error { return os.Symlink("/etc/passwd", p) }, fencing.ReasonResultInvalid, "symbolic link"},
		"a dangling link":    {func(p string) error { return os.Symlink("/nowhere", p) }, fencing.ReasonResultInvalid, "symbolic link"},
		"a FIFO that nobody writes to": {func(p string) error { return syscall.Mkfifo(p, 0o600) },
			fencing.ReasonResultInvalid, "no regular file"},
		"a directory":       {func(p string) error { return os.Mkdir(p, 0o700) }, fencing.ReasonResultInvalid, "no regular file"},
		"a socket":          {listen, fencing.ReasonResultInvalid, "cannot be read"},
		"an endless device": {func(p string) error { return os.Symlink("/dev/zero", p) }, fencing.ReasonResultInvalid, "symbolic link"},
		"a file of a terabyte": {func(p string) error { return sparse(p, 1<<40) },
			fencing.ReasonResultTooLarge, "1099511627776 bytes, allowed are 32768"},
		"NUL bytes are text": {func(p string) error { return os.WriteFile(p, []byte("a\x00b"), 0o600) }, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r")
			must(t, tc.make(path))
			got := readResult(path)
			if !got.Written || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("%+v, want %s: ...%s...", got, tc.reason, tc.message)
			}
		})
	}
	t.Run("absent", func(t *testing.T) {
		if got := readResult(filepath.Join(t.TempDir(), "dir", "r")); got.Written || got.Reason != "" {
			t.Errorf("%+v", got)
		}
	})
}

// listen leaves a socket behind.
func listen(path string) error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err == nil {
		listener.SetUnlinkOnClose(false)
		err = listener.Close()
	}
	return err
}

func sparse(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Close())
}

func TestOOMKills(t *testing.T) {
	tests := map[string]struct {
		file, content string
		want          int
	}{
		"cgroup v2":      {"memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n", 2},
		"cgroup v1":      {"memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n", 4},
		"an old kernel":  {"memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", 0},
		"something else": {"memory.events", "x\n", 0},
		"no controller":  {"other", "", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, tc.file)
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must(t, os.WriteFile(path, []byte(tc.content), 0o600))
			if got := oomKills(root); got != tc.want {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

func TestTheKernelsAccountOfMemoryReachesTheSubmission(t *testing.T) {
	f := newFixture(t, patient, nil)
	counter := filepath.Join(f.agent.Config.CgroupRoot, "memory.events")
	must(t, os.WriteFile(counter, []byte("oom_kill 1\n"), 0o600)) // an init container's, or an earlier command's
	f.tree.onStart = func(tree *fakeTree) {
		must(t, os.WriteFile(counter, []byte("oom_kill 2\n"), 0o600))
		tree.end(holder.Exit{Code: 137, Signal: syscall.SIGKILL})
	}
	f.wantCode(f.run(), 137)
	f.wantSubmitted(fencing.Failed, fencing.ReasonOOMKilled)
}

func TestReadNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "note")
	if got := readNote(path); got != "" {
		t.Errorf("absent: %q", got)
	}
	must(t, os.WriteFile(path, []byte("  why\xff it failed \n"), 0o600))
	if got := readNote(path); got != "why it failed" {
		t.Errorf("%q", got)
	}
	must(t, sparse(path, 1<<30))
	if got := len(readNote(path)); got > 2*fencing.MaxMessageBytes {
		t.Errorf("read %d bytes", got)
	}
	link := path + ".link"
	must(t, os.Symlink(path, link))
	if got := readNote(link); got != "" {
		t.Errorf("followed a link: %q", got)
	}
}
