package teststores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	answerLimit = time.Minute
	stopLimit   = 15 * time.Second
)

// server is a running process with a directory of its own.
type server struct {
	dir     string
	command *exec.Cmd
	ended   chan struct{} // closed once it has ended, with err
	err     error
}

// launch starts the command in its directory. It ends with this process, however that ends.
func (s *server) launch(progress io.Writer, identity *syscall.SysProcAttr, name string, args ...string) error {
	s.command = exec.Command(name, args...)
	s.command.Dir, s.command.Stdout, s.command.Stderr = s.dir, progress, progress
	s.command.SysProcAttr = identity
	if err := s.command.Start(); err != nil {
		s.command = nil
		return fmt.Errorf("start %s: %w", filepath.Base(name), err)
	}
	s.ended = make(chan struct{})
	go func() {
		s.err = s.command.Wait()
		close(s.ended)
	}()
	return nil
}

// await waits until answers is nil.
func (s *server) await(ctx context.Context, answers func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for {
		err := answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s ended: %w", filepath.Base(s.command.Path), s.err)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", filepath.Base(s.command.Path), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop ends the process, also in the middle of its clients' work, and removes its directory.
func (s *server) stop() error {
	if s.command != nil {
		_ = s.command.Process.Signal(syscall.SIGINT)
		select {
		case <-s.ended:
		case <-time.After(stopLimit):
			_ = s.command.Process.Kill()
			<-s.ended
		}
		s.command = nil
	}
	return os.RemoveAll(s.dir)
}

// identityOf makes a server run as the given account if we are root, and gives it the paths. Otherwise it runs as we do.
func identityOf(account string, paths ...string) (*syscall.SysProcAttr, error) {
	identity := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() != 0 {
		return identity, nil
	}
	owner, err := user.Lookup(account)
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.Atoi(owner.Uid)
	gid, gidErr := strconv.Atoi(owner.Gid)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, err
	}
	for _, path := range paths {
		if err := os.Chown(path, uid, gid); err != nil {
			return nil, err
		}
	}
	identity.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return identity, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
