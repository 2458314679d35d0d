package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsShimOfNeedsOurSocket(t *testing.T) {
	const ours = "/run/leasehold-localcluster/n1/containerd.sock"
	cases := map[string]struct {
		argv []string
		want bool
	}{
		"ours":                {[]string{"/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", "x", "-address", ours}, true},
		"another containerd":  {[]string{"/usr/bin/containerd-shim-runc-v2", "-address", "/run/containerd/containerd.sock"}, false},
		"other node":          {[]string{"/usr/bin/containerd-shim-runc-v2", "-address", strings.Replace(ours, "n1", "n2", 1)}, false},
		"other program":       {[]string{"/usr/bin/ctr", "-address", ours}, false},
		"socket, other flag":  {[]string{"/usr/bin/containerd-shim-runc-v2", "-id", ours}, false},
		"address without one": {[]string{"/usr/bin/containerd-shim-runc-v2", "-address"}, false},
		"kernel thread":       {nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := isShimOf([]byte(strings.Join(tc.argv, "\x00")+"\x00"), ours); got != tc.want {
				t.Errorf("isShimOf(%v) = %v, want %v", tc.argv, got, tc.want)
			}
		})
	}
}

func TestCgroupFileNames(t *testing.T) {
	cases := map[string]struct {
		content string
		want    bool
	}{
		"v1":              {"9:name=systemd:/\n8:pids:/k8s.io/abc\n", true},
		"v2":              {"0::/k8s.io/abc\n", true},
		"below":           {"0::/k8s.io/abc/child\n", true},
		"longer name":     {"0::/k8s.io/abcd\n", false},
		"other container": {"0::/k8s.io/def\n", false},
		"not a line":      {"nonsense", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cgroupFileNames(tc.content, "/k8s.io/abc"); got != tc.want {
				t.Errorf("cgroupFileNames(%q) = %v, want %v", tc.content, got, tc.want)
			}
		})
	}
}

func TestMountsBelow(t *testing.T) {
	mountinfo := "1 0 254:0 / / rw - ext4 /dev/vda rw\n" +
		"2 1 0:5 / /var/lib/test/nodes/x rw - tmpfs tmpfs rw\n" +
		"3 1 0:5 / /var/lib/test rw - tmpfs tmpfs rw\n" +
		"4 1 0:5 / /var/lib/testing rw - tmpfs tmpfs rw\n"
	want := []string{"/var/lib/test/nodes/x", "/var/lib/test"}
	if diff := cmp.Diff(want, mountsBelow(mountinfo, "/var/lib/test")); diff != "" {
		t.Errorf("mountsBelow (-want +got):\n%s", diff)
	}
}
