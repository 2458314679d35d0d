package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/leasehold-io/leasehold/worker/internal/debian"
)

// packaged is where Debian has the server, one directory a version.
const packaged = "/usr/lib/postgresql/*/bin/postgres"

// ErrMissing says that there is no PostgreSQL and that we cannot install it.
var ErrMissing = errors.New("no PostgreSQL server here, and only root with apt-get can install Debian's package postgresql")

// binaries is the directory of initdb and postgres.
func binaries(ctx context.Context) (string, error) {
	if bin := installed(); bin != "" {
		return bin, nil
	}
	server, err := debian.Program(ctx, os.Stderr, packaged, "postgresql")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return filepath.Dir(server), nil
}

func installed() string {
	if found, err := filepath.Glob(packaged); err == nil && len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	server, err := exec.LookPath("postgres")
	if err != nil {
		return ""
	}
	if server, err = filepath.EvalSymlinks(server); err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(server), "initdb")); err != nil {
		return ""
	}
	return filepath.Dir(server)
}
