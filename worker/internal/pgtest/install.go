package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// debian is where Debian has the server, one directory a version.
const debian = "/usr/lib/postgresql/*/bin/postgres"

// ErrMissing says that there is no PostgreSQL and that we cannot install it.
var ErrMissing = errors.New("no PostgreSQL server here, and only root with apt-get can install Debian's package postgresql")

// binaries is the directory of initdb and postgres.
func binaries(ctx context.Context) (string, error) {
	if bin := installed(); bin != "" {
		return bin, nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return "", ErrMissing
	}
	// Debian's package would make a cluster of its own and start it; both are told not to.
	script := `set -e
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
"$0" update -qq || true
DEBIAN_FRONTEND=noninteractive "$0" install -y -qq --no-install-recommends postgresql`
	if out, err := exec.CommandContext(ctx, "sh", "-c", script, apt).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %w: %s", ErrMissing, err, strings.TrimSpace(string(out)))
	}
	if bin := installed(); bin != "" {
		return bin, nil
	}
	return "", ErrMissing
}

func installed() string {
	if found, err := filepath.Glob(debian); err == nil && len(found) > 0 {
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
