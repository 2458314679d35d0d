package binaries

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersionIsTheOneOfTheToolsModule(t *testing.T) {
	content, err := os.ReadFile("../../tools/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), "k8s.io/kubernetes "+Version) {
		t.Errorf("tools/go.mod does not require k8s.io/kubernetes %s", Version)
	}
	for _, tool := range tools {
		if !strings.Contains(string(content), "\t"+tool.pkg+"\n") {
			t.Errorf("tools/go.mod has no tool directive for %s", tool.pkg)
		}
	}
}

func TestLdflagsStampTheVersion(t *testing.T) {
	want := "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2 -X k8s.io/component-base/version.gitMajor=1" +
		" -X k8s.io/component-base/version.gitMinor=37"
	if got := ldflags(); got != want {
		t.Errorf("ldflags() = %q, want %q", got, want)
	}
}

func TestAssetsGoBeforeTheCache(t *testing.T) {
	cases := map[string]struct {
		assets, cache []string
		names         []string
		wantAssets    bool   // Directory returns KUBEBUILDER_ASSETS
		wantEtcd      string // whose etcd Paths returns
	}{
		"assets have all":  {[]string{"etcd", "kubectl"}, nil, []string{"etcd", "kubectl"}, true, "assets"},
		"assets have some": {[]string{"etcd"}, []string{"etcd", "kubectl"}, []string{"etcd", "kubectl"}, false, "assets"},
		"assets are empty": {nil, []string{"etcd"}, []string{"etcd"}, false, "cache"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			assets := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			t.Setenv("KUBEBUILDER_ASSETS", assets)
			cache, err := CacheDir()
			if err != nil {
				t.Fatal(err)
			}
			touch(t, assets, tc.assets)
			touch(t, cache, tc.cache)
			dir, err := Directory(t.Context(), io.Discard, tc.names)
			if err != nil || (dir == assets) != tc.wantAssets {
				t.Errorf("Directory() = %s, %v; want assets %v", dir, err, tc.wantAssets)
			}
			paths, err := Paths(t.Context(), io.Discard, tc.names)
			wantEtcd := filepath.Join(map[string]string{"assets": assets, "cache": cache}[tc.wantEtcd], "etcd")
			if err != nil || paths["etcd"] != wantEtcd {
				t.Errorf("Paths()[etcd] = %s, %v; want %s", paths["etcd"], err, wantEtcd)
			}
		})
	}
}

func TestUnknownBinaryIsRefused(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := Directory(t.Context(), io.Discard, []string{"kubeadm"}); err == nil || !strings.Contains(err.Error(), "kubeadm") {
		t.Errorf("Directory(kubeadm) = %v, want an error that names it", err)
	}
}

func touch(t *testing.T, dir string, names []string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
