package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func testLayout(t *testing.T) Layout {
	t.Helper()
	l, err := NewLayout("/var/lib/test")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestNewLayoutRefusesUnsafeDirectories(t *testing.T) {
	for _, dir := range []string{"/", "relative", "/a/../b", "/a/"} {
		if _, err := NewLayout(dir); err == nil {
			t.Errorf("NewLayout(%q) succeeded; down would remove it", dir)
		}
	}
	t.Setenv(DirEnv, "/srv/cluster")
	if l, err := NewLayout(""); err != nil || l.Dir != "/srv/cluster" {
		t.Errorf("NewLayout with %s = %q, %v", DirEnv, l.Dir, err)
	}
}

func TestConfigFilesAreWellFormed(t *testing.T) {
	files, err := testLayout(t).configFiles()
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range files {
		var into map[string]any
		switch {
		case strings.HasSuffix(path, ".conflist"):
			err = json.Unmarshal(content, &into)
		case strings.HasSuffix(path, ".yaml"):
			err = yaml.UnmarshalStrict(content, &into)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNodesDifferInWhatTheyMustNotShare(t *testing.T) {
	l := testLayout(t)
	files, err := l.configFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range l.Nodes {
		for name, path := range n.configPaths() {
			for _, other := range l.Nodes {
				if other.Name != n.Name && strings.Contains(string(files[path]), other.Dir) {
					t.Errorf("%s of %s names a directory of %s", name, n.Name, other.Name)
				}
			}
		}
		kubelet := string(files[n.configPaths()["kubelet.yaml"]])
		if !strings.Contains(kubelet, "unix://"+n.ContainerdSocket()) {
			t.Errorf("the kubelet of %s does not use its own containerd", n.Name)
		}
		if !strings.Contains(string(files[n.configPaths()["cni.conflist"]]), n.PodCIDR()) {
			t.Errorf("the Pods of %s are not in %s", n.Name, n.PodCIDR())
		}
	}
}

func TestFingerprintFollowsConfigurationAndArguments(t *testing.T) {
	l := testLayout(t)
	files, err := l.configFiles()
	if err != nil {
		t.Fatal(err)
	}
	components := func(kubelet string) []component {
		return l.components(map[string]string{"kubelet": kubelet}, "/containerd")
	}
	first, _ := fingerprint(files, components("/a/kubelet"))
	again, _ := fingerprint(files, components("/a/kubelet"))
	other, _ := fingerprint(files, components("/b/kubelet"))
	if first == "" || first != again {
		t.Errorf("the same cluster has the fingerprints %q and %q", first, again)
	}
	if first == other {
		t.Error("another kubelet has the same fingerprint, so up would keep the old one running")
	}
}

func TestNoNodeHasADefaultRoute(t *testing.T) {
	l := testLayout(t)
	for _, n := range l.Nodes {
		if links := l.nodeLinks(n); strings.Contains(links, "default") || strings.Contains(links, "0.0.0.0") {
			t.Errorf("%s could send packets out of the machine:\n%s", n.Name, links)
		}
	}
}

func TestImportedRefs(t *testing.T) {
	out := "unpacking docker.io/library/busybox:1.36 (sha256:0123)...done\nother\nunpacking docker.io/leasehold/agent:dev (sha256:4567)...done\n"
	want := []string{"docker.io/library/busybox:1.36", "docker.io/leasehold/agent:dev"}
	if diff := cmp.Diff(want, importedRefs(out)); diff != "" {
		t.Errorf("importedRefs (-want +got):\n%s", diff)
	}
}

func TestFailuresShortensHealthAnswers(t *testing.T) {
	cases := map[string]struct{ body, want string }{
		"object": {`{"kind":"Status"}`, ""},
		"one":    {"[+]ping ok\n[-]etcd failed: reason withheld\n", " (etcd)"},
		"many":   {"[-]a failed\n[-]b failed\n[-]c failed\n[-]d failed\n[-]e failed\n", " (a, b, c and 2 more)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := failures(tc.body); got != tc.want {
				t.Errorf("failures() = %q, want %q", got, tc.want)
			}
		})
	}
}
