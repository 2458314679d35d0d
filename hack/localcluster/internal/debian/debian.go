package debian

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// requirement is a package and the files of it that the cluster uses. An entry without a slash is searched in PATH.
type requirement struct {
	pkg    string
	files  []string
	static bool // the files must be static binaries, because they go into an image without a C library
}

var requirements = []requirement{
	{pkg: "containerd", files: []string{"containerd", "containerd-shim-runc-v2", "ctr"}},
	{pkg: "runc", files: []string{"runc"}},
	{pkg: "containernetworking-plugins", files: []string{"/usr/lib/cni/ptp", "/usr/lib/cni/host-local", "/usr/lib/cni/loopback"}},
	{pkg: "iptables", files: []string{"iptables", "iptables-restore"}},
	{pkg: "iproute2", files: []string{"ip"}},
	{pkg: "util-linux", files: []string{"unshare", "nsenter"}},
	{pkg: "mount", files: []string{"mount", "umount"}},
	{pkg: "busybox-static", files: []string{"/bin/busybox"}, static: true},
}

// Ensure installs missing packages. Without root or apt-get its error names them.
func Ensure(ctx context.Context, progress io.Writer) error {
	lacking := missing(requirements)
	if len(lacking) == 0 {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("these Debian packages (or the same software) are needed, and only root can install them with apt-get: %s",
			strings.Join(lacking, " "))
	}
	_, _ = fmt.Fprintf(progress, "Installing Debian packages: %s\n", strings.Join(lacking, " "))
	allowStart, err := forbidServiceStart()
	if err != nil {
		return err
	}
	defer allowStart()
	if err := run(ctx, apt, "update", "-qq"); err != nil {
		_, _ = fmt.Fprintf(progress, "Going on with the package lists that are here: %v\n", err)
	}
	args := append([]string{"install", "-y", "-qq", "--no-install-recommends"}, lacking...)
	if err := run(ctx, apt, args...); err != nil {
		return err
	}
	if still := missing(requirements); len(still) > 0 {
		return fmt.Errorf("packages %s were installed, but their files are not where we look for them", strings.Join(still, " "))
	}
	return nil
}

func run(ctx context.Context, name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}

func missing(all []requirement) []string {
	var lacking []string
	for _, r := range all {
		for _, file := range r.files {
			if !r.has(file) {
				lacking = append(lacking, r.pkg)
				break
			}
		}
	}
	return lacking
}

func (r requirement) has(file string) bool {
	path, err := exec.LookPath(file)
	return err == nil && (!r.static || isStatic(path))
}

// isStatic is true for a program that asks for no dynamic loader.
func isStatic(path string) bool {
	program, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = program.Close() }()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

// policyFile is where Debian's package scripts ask whether they may start services.
const policyFile = "/usr/sbin/policy-rc.d"

const policy = "#!/bin/sh\n# Temporary, written by Leasehold's hack/localcluster while it installs packages.\nexit 101\n"

// forbidServiceStart keeps the containerd package from starting a system containerd: the cluster runs its own, one for each node.
// An administrator's own policy stays; ours is replaced when a killed run left it.
func forbidServiceStart() (undo func(), err error) {
	current, err := os.ReadFile(policyFile)
	if err == nil && string(current) != policy {
		return func() {}, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", policyFile, err)
	}
	if err := os.WriteFile(policyFile, []byte(policy), 0o755); err != nil {
		return nil, fmt.Errorf("write %s: %w", policyFile, err)
	}
	return func() { _ = os.Remove(policyFile) }, nil
}
