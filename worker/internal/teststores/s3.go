package teststores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/leasehold-io/leasehold/worker/internal/debian"
)

// The one account of the S3 gateway.
const (
	S3AccessKey = "leasehold"
	S3SecretKey = "only-on-loopback-while-a-test-runs"
)

const gateway = "github.com/versity/versitygw/cmd/versitygw"

// startS3 starts the Versity S3 gateway on a directory. It is the one S3 store that is a Go module, builds in 90 s of CPU time, and makes the
// check of If-Match and If-None-Match and the replacement of the object one step; docs/guides/fencing.md has what was measured.
func startS3(ctx context.Context, progress io.Writer) (string, func() error, error) {
	binary, err := buildGateway(ctx, progress)
	if err != nil {
		return "", nil, err
	}
	s := &server{}
	if s.dir, err = os.MkdirTemp("", "leasehold-s3-"); err != nil {
		return "", nil, err
	}
	data := filepath.Join(s.dir, "data")
	port, err := freePort()
	if err = errors.Join(err, os.Mkdir(data, 0o700)); err != nil {
		return "", nil, errors.Join(err, s.stop())
	}
	err = s.launch(io.Discard, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, binary, "--port", loopback(port), "--access", S3AccessKey,
		"--secret", S3SecretKey, "--health", "/health", "--quiet", "posix", data)
	if err == nil {
		err = s.await(ctx, func(ctx context.Context) error { return getHealth(ctx, "http://"+loopback(port)+"/health") })
	}
	if err != nil {
		return "", nil, errors.Join(err, s.stop())
	}
	return "http://" + loopback(port), s.stop, nil
}

func getHealth(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("health: %s", answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// buildGateway builds the gateway once, outside the checkout, keyed by its module file and the Go version.
func buildGateway(ctx context.Context, progress io.Writer) (string, error) {
	dir, err := toolsDir(ctx)
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(append(sums, runtime.Version()...))
	cache, err := debian.CacheDir()
	if err != nil {
		return "", err
	}
	unlock, err := debian.Lock("versitygw")
	if err != nil {
		return "", err
	}
	defer unlock()
	binary := filepath.Join(cache, "versitygw-"+hex.EncodeToString(key[:8]))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	_, _ = fmt.Fprintln(progress, "Building the S3 gateway (once; some minutes on two cores)")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", binary+".new", gateway)
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", gateway, err, out)
	}
	return binary, os.Rename(binary+".new", binary)
}

// toolsDir is where the module file of the gateway is, in the checkout of this module.
func toolsDir(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/leasehold-io/leasehold/worker/internal/teststores")
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find the module file of the S3 gateway: %w", err)
	}
	return filepath.Join(string(out[:max(0, len(out)-1)]), "tools"), nil
}
