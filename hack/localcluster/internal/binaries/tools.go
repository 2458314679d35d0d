package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Version is the release of Kubernetes; it equals the one in tools/go.mod (a test says so).
const Version = "v1.37.2"

// tool is one binary. Cold is its measured build time on 2 cores with an empty Go build cache, after those before it in the list.
type tool struct {
	name string
	pkg  string
	cold time.Duration
}

var tools = []tool{
	{"etcd", "go.etcd.io/etcd/server/v3", 80 * time.Second},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 11 * time.Minute},
	{"kubectl", "k8s.io/kubernetes/cmd/kubectl", 90 * time.Second},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 150 * time.Second},
	{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 15 * time.Second},
	{"kubelet", "k8s.io/kubernetes/cmd/kubelet", 80 * time.Second},
	{"kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", 40 * time.Second},
	{"helm", "helm.sh/helm/v3/cmd/helm", 40 * time.Second},
}

// Names lists all binaries.
func Names() []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.name)
	}
	return names
}

func find(name string) (tool, error) {
	for _, t := range tools {
		if t.name == name {
			return t, nil
		}
	}
	return tool{}, fmt.Errorf("unknown binary %q, known are %v", name, Names())
}

// CacheDir is where built binaries lie.
func CacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the cache directory: %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "leasehold", "k8s-"+Version), nil
}

// SourceDir is hack/localcluster of the checkout: above the working directory, or where this program was compiled.
func SourceDir() (string, error) {
	const marker = "tools/go.mod"
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		candidate := filepath.Join(dir, "hack", "localcluster")
		if isFile(filepath.Join(candidate, marker)) {
			return candidate, nil
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if _, self, _, ok := runtime.Caller(0); ok {
		candidate := filepath.Join(filepath.Dir(self), "..", "..")
		if isFile(filepath.Join(candidate, marker)) {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("hack/localcluster/%s is not above the working directory: run this inside the checkout", marker)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
