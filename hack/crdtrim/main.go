// Crdtrim edits the CRDs that controller-gen wrote, in place:
//
//	go run ./hack/crdtrim config/crd/bases/*.yaml
//
// Below every embedded PodTemplateSpec it
//   - removes the descriptions, which are nine tenths of the file and repeat what `kubectl explain pod.spec` says;
//   - removes name and namespace of the metadata: a Pod has those that the operator gives it, and no field is taken and ignored;
//   - bounds the lists and names that our CEL rules walk. Kubernetes leaves them unbounded in the schema, and the API server
//     refuses a rule that it must assume to run over an unbounded list of unbounded strings.
//
// Our own descriptions stay. It fails when a CRD would no longer fit the annotation of a client-side `kubectl apply`.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxJSON is the API server's limit for all annotations of one object.
const maxJSON = 262144

func main() {
	for _, path := range os.Args[1:] {
		if err := trimFile(path); err != nil {
			fmt.Fprintf(os.Stderr, "crdtrim: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
}

func trimFile(path string) error {
	in, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	out, err := trim(in)
	if err != nil {
		return err
	}
	return os.WriteFile(path, out, 0o644)
}

// trim returns the CRD without the descriptions below its Pod templates.
func trim(in []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(in, &doc); err != nil {
		return nil, err
	}
	walk(&doc)
	if err := checkSize(&doc); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Bounds of an embedded PodTemplateSpec. Names of containers and volumes are DNS labels, which the API server checks when the
// Pod is created; no Pod that fits the limit on a task's size comes near the lists' bounds.
const (
	maxContainers = 64
	maxVolumes    = 256
	maxName       = 63
)

// walk looks for schemas of embedded PodTemplateSpecs, strips what is below their own description and sets bounds.
func walk(n *yaml.Node) {
	if isPodTemplate(n) {
		eachChildSchema(n, strip)
		drop(field(field(n, "properties"), "metadata"), "name", "namespace")
		spec := field(field(field(n, "properties"), "spec"), "properties")
		bound(field(spec, "containers"), maxContainers)
		bound(field(spec, "initContainers"), maxContainers)
		bound(field(spec, "volumes"), maxVolumes)
		return
	}
	for _, c := range n.Content {
		walk(c)
	}
}

// drop removes properties of a schema.
func drop(schema *yaml.Node, names ...string) {
	props := field(schema, "properties")
	for i := 0; props != nil && i+1 < len(props.Content); {
		if !slices.Contains(names, props.Content[i].Value) {
			i += 2
			continue
		}
		props.Content = slices.Delete(props.Content, i, i+2)
	}
}

// isPodTemplate says whether n is a schema with the shape of a PodTemplateSpec: spec.containers below it.
func isPodTemplate(n *yaml.Node) bool {
	spec := field(field(n, "properties"), "spec")
	return field(field(spec, "properties"), "containers") != nil && field(field(n, "properties"), "metadata") != nil
}

// strip removes the description of a schema and of all schemas below it. A property that is *named* description stays.
func strip(schema *yaml.Node) {
	for i := 0; i+1 < len(schema.Content); i += 2 {
		if schema.Content[i].Value == "description" {
			schema.Content = append(schema.Content[:i], schema.Content[i+2:]...)
			break
		}
	}
	eachChildSchema(schema, strip)
}

// eachChildSchema calls do for every schema directly below schema.
func eachChildSchema(schema *yaml.Node, do func(*yaml.Node)) {
	if props := field(schema, "properties"); props != nil {
		for i := 1; i < len(props.Content); i += 2 {
			do(props.Content[i])
		}
	}
	for _, name := range []string{"items", "additionalProperties", "not"} {
		if child := field(schema, name); child != nil && child.Kind == yaml.MappingNode {
			do(child)
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		if list := field(schema, name); list != nil {
			for _, child := range list.Content {
				do(child)
			}
		}
	}
}

// bound limits a list, and the names of its items.
func bound(list *yaml.Node, items int) {
	if list == nil {
		return
	}
	set(list, "maxItems", items)
	if name := field(field(field(list, "items"), "properties"), "name"); name != nil {
		set(name, "maxLength", maxName)
	}
}

// set gives a mapping's key a value, keeping the keys in alphabetical order.
func set(n *yaml.Node, key string, value int) {
	v := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(value)}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch {
		case n.Content[i].Value == key:
			n.Content[i+1] = v
			return
		case n.Content[i].Value > key:
			k := &yaml.Node{Kind: yaml.ScalarNode, Value: key}
			n.Content = slices.Insert(n.Content, i, k, v)
			return
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, v)
}

// field returns the value of a mapping's key, or nil.
func field(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func checkSize(doc *yaml.Node) error {
	var v any
	if err := doc.Decode(&v); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxJSON {
		return fmt.Errorf("%d bytes of JSON; client-side apply keeps at most %d in an annotation", len(b), maxJSON)
	}
	return nil
}
