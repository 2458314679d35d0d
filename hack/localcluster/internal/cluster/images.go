package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasehold-io/leasehold/hack/image/archive"
	"github.com/leasehold-io/leasehold/hack/localcluster/internal/binaries"
)

const (
	pauseImage = "docker.io/leasehold/pause:localcluster"
	// busyboxImage stands in for the public image of that name; it holds Debian's static busybox.
	busyboxImage = "docker.io/library/busybox:1.36"
	busyboxFile  = "/bin/busybox"
	// criLabel is on an image once the kubelet's interface of containerd knows it.
	criLabel = "io.cri-containerd.image=managed"
)

// baseImages writes the images that every cluster has and returns the archives.
func (c *Cluster) baseImages(ctx context.Context) ([]string, error) {
	dir := filepath.Join(c.Dir, "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the image directory: %w", err)
	}
	pause, err := buildPause(ctx, filepath.Join(dir, "pause"))
	if err != nil {
		return nil, err
	}
	busybox, err := busyboxEntries(ctx)
	if err != nil {
		return nil, err
	}
	pauseTar, busyboxTar := filepath.Join(dir, "pause.tar"), filepath.Join(dir, "busybox.tar")
	err = archive.Write(pauseTar, archive.Spec{
		Tag: pauseImage, Entries: []archive.Entry{archive.File("/pause", 0o755, pause)},
		Entrypoint: []string{"/pause"}, User: "65535:65535",
	})
	if err != nil {
		return nil, err
	}
	err = archive.Write(busyboxTar, archive.Spec{
		Tag: busyboxImage, Entries: busybox, Cmd: []string{"sh"},
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	})
	return []string{pauseTar, busyboxTar}, err
}

func buildPause(ctx context.Context, out string) ([]byte, error) {
	source, err := binaries.SourceDir()
	if err != nil {
		return nil, err
	}
	_, err = run(ctx, "env", "CGO_ENABLED=0", "go", "-C", source, "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./pause")
	if err != nil {
		return nil, fmt.Errorf("build pause: %w", err)
	}
	return os.ReadFile(out)
}

func busyboxEntries(ctx context.Context) ([]archive.Entry, error) {
	binary, err := os.ReadFile(busyboxFile)
	if err != nil {
		return nil, fmt.Errorf("read busybox: %w", err)
	}
	applets, err := run(ctx, busyboxFile, "--list")
	if err != nil {
		return nil, fmt.Errorf("list busybox applets: %w", err)
	}
	entries := []archive.Entry{
		archive.File("/bin/busybox", 0o755, binary),
		archive.Dir("/tmp", 0o1777), archive.Dir("/root", 0o700), archive.Dir("/home", 0o755), archive.Dir("/var/tmp", 0o1777),
		archive.File("/etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n")),
		archive.File("/etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n")),
		archive.Symlink("/usr/bin/env", "../../bin/busybox"),
	}
	for _, applet := range strings.Fields(applets) {
		if applet != "busybox" {
			entries = append(entries, archive.Symlink("/bin/"+applet, "busybox"))
		}
	}
	return entries, nil
}

// load imports image archives into every node.
func (c *Cluster) load(ctx context.Context, archives []string) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range c.Nodes {
		g.Go(func() error {
			for _, file := range archives {
				if err := importImage(ctx, n, file); err != nil {
					return fmt.Errorf("load %s into %s: %w", file, n.Name, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// importImage waits until a Pod can use the image, which is a moment after containerd has it.
func importImage(ctx context.Context, n Node, file string) error {
	out, err := ctr(ctx, n, "images", "import", file)
	if err != nil {
		return err
	}
	refs := importedRefs(out)
	if len(refs) == 0 {
		return errors.New("the archive names no image")
	}
	for _, ref := range refs {
		for {
			list, err := ctr(ctx, n, "images", "list", "name=="+ref)
			if err != nil {
				return err
			}
			if strings.Contains(list, criLabel) {
				break
			}
			if err := sleep(ctx, 50*time.Millisecond); err != nil {
				return fmt.Errorf("wait until %s is known to the kubelet: %w", ref, err)
			}
		}
	}
	return nil
}

// importedRefs reads them from lines like "unpacking docker.io/library/busybox:1.36 (sha256:...)...done".
func importedRefs(out string) []string {
	var refs []string
	for line := range strings.Lines(out) {
		if rest, found := strings.CutPrefix(line, "unpacking "); found {
			ref, _, _ := strings.Cut(rest, " ")
			refs = append(refs, ref)
		}
	}
	return refs
}

// ctr runs containerd's client against a node, in the namespace of the kubelet's objects.
func ctr(ctx context.Context, n Node, args ...string) (string, error) {
	return run(ctx, append([]string{"ctr", "--address", n.ContainerdSocket(), "--namespace", "k8s.io"}, args...)...)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
