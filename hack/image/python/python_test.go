package python

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/leasehold-io/leasehold/hack/image/archive"
)

// TestTheImageRunsWhatAWorkerNeeds: it is unpacked, and its Python started with nothing else in sight.
func TestTheImageRunsWhatAWorkerNeeds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can install Python and change its root directory")
	}
	spec, err := Spec(t.Context(), os.Stderr, "example/python:test")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := archive.Write(file, spec); err != nil {
		t.Fatal(err)
	}
	root := unpack(t, file)
	cmd := exec.Command("/usr/bin/python3", "-c", "import http.client, json, signal, socket, struct, threading, hashlib; print(json.dumps({'rows': 3}))")
	cmd.Dir, cmd.Env = "/", spec.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "{\"rows\": 3}\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func unpack(t *testing.T, file string) (root string) {
	t.Helper()
	image, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if root, err = os.MkdirTemp("", "leasehold-python-"); err != nil { // t.TempDir is for its owner only
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer content.Close() //nolint:errcheck // read
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := place(filepath.Join(root, header.Name), header, r); err != nil {
			t.Fatal(err)
		}
	}
}

func place(path string, header *tar.Header, r io.Reader) error {
	switch header.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(path, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(header.Linkname, path)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, os.FileMode(header.Mode))
}
