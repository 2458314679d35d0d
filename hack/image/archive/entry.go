package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Entry is one file, directory or symbolic link of the image.
type Entry struct {
	path    string
	mode    int64
	kind    byte
	content []byte
	target  string
}

// File is a regular file; name is absolute.
func File(name string, mode int64, content []byte) Entry {
	return Entry{path: name, mode: mode, kind: tar.TypeReg, content: content}
}

// Dir is a directory. Parents of every entry are made (0755) without being named.
func Dir(name string, mode int64) Entry {
	return Entry{path: name, mode: mode, kind: tar.TypeDir}
}

// Symlink is a symbolic link at name that points to target.
func Symlink(name, target string) Entry {
	return Entry{path: name, mode: 0o777, kind: tar.TypeSymlink, target: target}
}

// layer packs the entries as a tar stream, sorted by path so that parents come first.
func layer(entries []Entry) ([]byte, error) {
	all, err := withParents(entries)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range all {
		if err := w.WriteHeader(e.header()); err != nil {
			return nil, fmt.Errorf("write header of %s: %w", e.path, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("write %s: %w", e.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("close layer: %w", err)
	}
	return buf.Bytes(), nil
}

func (e Entry) header() *tar.Header {
	name := strings.TrimPrefix(e.path, "/")
	if e.kind == tar.TypeDir {
		name += "/"
	}
	return &tar.Header{
		Typeflag: e.kind, Name: name, Linkname: e.target, Mode: e.mode, Size: int64(len(e.content)),
		ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX,
	}
}

// withParents checks the paths, adds missing parent directories and sorts.
func withParents(entries []Entry) ([]Entry, error) {
	byPath := map[string]Entry{}
	for _, e := range entries {
		if !path.IsAbs(e.path) || path.Clean(e.path) != e.path || e.path == "/" {
			return nil, fmt.Errorf("path %q is not absolute and clean", e.path)
		}
		if _, taken := byPath[e.path]; taken {
			return nil, fmt.Errorf("path %q is given twice", e.path)
		}
		byPath[e.path] = e
	}
	for _, e := range entries {
		for dir := path.Dir(e.path); dir != "/"; dir = path.Dir(dir) {
			parent, found := byPath[dir]
			if found && parent.kind != tar.TypeDir {
				return nil, fmt.Errorf("path %q lies below %q, which is not a directory", e.path, dir)
			}
			if !found {
				byPath[dir] = Dir(dir, 0o755)
			}
		}
	}
	all := make([]Entry, 0, len(byPath))
	for _, e := range byPath {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.path, b.path) })
	return all, nil
}
