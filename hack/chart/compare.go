package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

type object = map[string]any

func compareFiles(helm, kustomize string) error {
	h, err := readObjects(helm)
	if err != nil {
		return err
	}
	k, err := readObjects(kustomize)
	if err != nil {
		return err
	}
	if diff := compare(h, k); diff != "" {
		return fmt.Errorf("the chart (-) and config/ (+) differ:\n%s", diff)
	}
	return nil
}

func readObjects(path string) (map[string]object, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	objs, err := parseObjects(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return objs, nil
}

// parseObjects returns the objects of a YAML stream by kind, namespace and name, reduced to what must be the same.
func parseObjects(raw []byte) (map[string]object, error) {
	out := map[string]object{}
	for dec := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		var o object
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if o == nil || o["kind"] == "Namespace" { // the release's namespace is made by `helm --create-namespace`
			continue
		}
		meta, _ := o["metadata"].(object)
		key := fmt.Sprintf("%v %v/%v", o["kind"], meta["namespace"], meta["name"])
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%s appears twice", key)
		}
		reduce(meta, "labels", "app.kubernetes.io/", "helm.sh/")
		reduce(meta, "annotations", "helm.sh/")
		out[key] = o
	}
}

// reduce drops the keys with one of the prefixes from a map of strings, and the map when nothing is left.
func reduce(meta object, field string, prefixes ...string) {
	m, ok := meta[field].(object)
	if !ok {
		return
	}
	maps.DeleteFunc(m, func(k string, _ any) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(k, p) })
	})
	if len(m) == 0 {
		delete(meta, field)
	}
}

// compare returns what differs, or nothing.
func compare(helm, kustomize map[string]object) string {
	var out strings.Builder
	keys := maps.Clone(helm)
	maps.Copy(keys, kustomize)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if diff := cmp.Diff(helm[key], kustomize[key]); diff != "" {
			fmt.Fprintf(&out, "%s:\n%s\n", key, diff)
		}
	}
	return out.String()
}
