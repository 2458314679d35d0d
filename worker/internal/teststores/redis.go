package teststores

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/leasehold-io/leasehold/worker/internal/debian"
)

// StartRedis starts a Redis that keeps its data in memory, with the default eviction policy. The server process of the Debian package
// needs no password: it listens on loopback and lives as long as the tests.
func StartRedis(ctx context.Context, progress io.Writer) (string, func() error, error) {
	binary, err := debian.Program(ctx, progress, "redis-server", "redis-server")
	if err != nil {
		return "", nil, err
	}
	s := &server{}
	if s.dir, err = os.MkdirTemp("", "leasehold-redis-"); err != nil {
		return "", nil, err
	}
	port, err := freePort()
	if err != nil {
		return "", nil, errors.Join(err, s.stop())
	}
	identity, err := identityOf("redis", s.dir)
	if err != nil {
		return "", nil, errors.Join(err, s.stop())
	}
	err = s.launch(io.Discard, identity, binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "",
		"--appendonly", "no", "--daemonize", "no")
	if err == nil {
		err = s.await(ctx, func(ctx context.Context) error { return pingRedis(ctx, loopback(port)) })
	}
	if err != nil {
		return "", nil, errors.Join(err, s.stop())
	}
	return loopback(port), s.stop, nil
}

func pingRedis(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if deadline, set := ctx.Deadline(); set {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && strings.TrimSpace(answer) != "+PONG" {
		err = fmt.Errorf("answer to PING: %q", answer)
	}
	return err
}
