package archive

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func spec() Spec {
	return Spec{
		Tag:        "leasehold/test:dev",
		Entries:    []Entry{Symlink("/bin/sh", "busybox"), File("/bin/busybox", 0o755, []byte("binary")), Dir("/tmp", 0o1777)},
		Entrypoint: []string{"/bin/sh"},
		User:       "65532",
	}
}

func TestWriteGivesTheSameBytesTwice(t *testing.T) {
	dir := t.TempDir()
	var got [2][]byte
	for i, name := range []string{"a.tar", "b.tar"} {
		out := filepath.Join(dir, name)
		if err := Write(out, spec()); err != nil {
			t.Fatal(err)
		}
		var err error
		if got[i], err = os.ReadFile(out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got[0], got[1]) {
		t.Error("two archives of one spec differ")
	}
}

func TestWriteKeepsConfigAndEntries(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := Write(out, spec()); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Config.User != "65532" || file.OS != "linux" || !cmp.Equal(file.Config.Entrypoint, []string{"/bin/sh"}) {
		t.Errorf("config = %+v", file.Config)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("layers = %d, %v; want 1", len(layers), err)
	}
	stream, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bin/", "bin/busybox", "bin/sh -> busybox", "tmp/"}, names(t, stream)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestLayerRefusesBadPaths(t *testing.T) {
	cases := map[string]struct {
		entries []Entry
		wantErr string
	}{
		"relative":     {[]Entry{File("manager", 0o755, nil)}, "not absolute"},
		"not clean":    {[]Entry{File("/a/../b", 0o755, nil)}, "not absolute and clean"},
		"twice":        {[]Entry{File("/a", 0o755, nil), Dir("/a", 0o755)}, "given twice"},
		"below a file": {[]Entry{File("/a", 0o755, nil), File("/a/b", 0o755, nil)}, "not a directory"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := layer(tc.entries)
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("layer() error = %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func names(t *testing.T, stream io.Reader) []string {
	t.Helper()
	var got []string
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Linkname != "" {
			h.Name += " -> " + h.Linkname
		}
		got = append(got, h.Name)
	}
}
