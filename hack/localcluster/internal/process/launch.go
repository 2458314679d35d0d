package process

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// LauncherCommand is the hidden first argument that makes our executable a launcher; main must call [RunLauncher] for it.
const LauncherCommand = "launch-component"

// Files that the launcher inherits. Both close with exec.
const (
	lockFD   = 3 // the lock that Start's caller holds
	reportFD = 4 // takes the launcher's error; closed without one, the process runs
)

// Launch says what to run and where.
type Launch struct {
	PIDFile string
	Argv    []string // Argv[0] is an absolute path
	// NetNS is the network namespace's file; empty stays in the host's.
	NetNS string
	// OwnMounts gives the process a mount namespace of its own, with Binds in it: what it mounts is gone when its last process is, and
	// fixed paths that components insist on are not shared with other nodes or with the host.
	OwnMounts bool
	Binds     []Bind
	// MountsOf is the pid file of a process with OwnMounts whose mount namespace is joined.
	MountsOf string
}

// Bind shows the directory From at To. Both exist.
type Bind struct{ From, To string }

// RunLauncher reads a Launch from stdin and becomes its process. It returns only with an error, which Start returns too.
func RunLauncher(stdin io.Reader) error {
	unix.CloseOnExec(lockFD)
	unix.CloseOnExec(reportFD)
	err := launch(stdin)
	_, _ = unix.Write(reportFD, []byte(err.Error()))
	return err
}

func launch(stdin io.Reader) error {
	var l Launch
	if err := json.NewDecoder(stdin).Decode(&l); err != nil {
		return fmt.Errorf("read launch: %w", err)
	}
	if IsAlive(l.PIDFile) {
		return fmt.Errorf("the process of %s runs already", l.PIDFile)
	}
	id, err := Self()
	if err != nil {
		return err
	}
	if err := id.save(l.PIDFile); err != nil {
		return err
	}
	// Namespaces belong to a thread; exec keeps those of the thread that calls it.
	runtime.LockOSThread()
	if err := l.enterNamespaces(); err != nil {
		return err
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	if err := unix.Dup2(null, 0); err != nil {
		return fmt.Errorf("replace stdin: %w", err)
	}
	unix.CloseOnExec(null)
	if err := unix.Exec(l.Argv[0], l.Argv, os.Environ()); err != nil {
		return fmt.Errorf("exec %s: %w", l.Argv[0], err)
	}
	return nil
}

func (l Launch) enterNamespaces() error {
	if l.NetNS != "" {
		if err := join(l.NetNS, unix.CLONE_NEWNET); err != nil {
			return err
		}
	}
	if l.MountsOf != "" {
		owner, found, err := Load(l.MountsOf)
		if err != nil || !found || !owner.IsAlive() {
			return fmt.Errorf("the owner of the mount namespace (%s) does not run", l.MountsOf)
		}
		// The kernel refuses a new mount namespace to a thread that shares its root and working directory.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("unshare fs: %w", err)
		}
		return join(fmt.Sprintf("/proc/%d/ns/mnt", owner.PID), unix.CLONE_NEWNS)
	}
	if l.OwnMounts {
		return l.makeMounts()
	}
	return nil
}

// makeMounts first cuts propagation from and to the host, then allows it inside, so that Pods may use Bidirectional mounts.
func (l Launch) makeMounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mounts: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, b := range l.Binds {
		if err := unix.Mount(b.From, b.To, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s at %s: %w", b.From, b.To, err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	return nil
}

func join(file string, kind int) error {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open namespace %s: %w", file, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Setns(fd, kind); err != nil {
		return fmt.Errorf("enter namespace %s: %w", file, err)
	}
	return nil
}
