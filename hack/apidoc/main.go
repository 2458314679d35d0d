// Apidoc writes docs/api.md from the CRDs, so that the page says what the API server enforces:
//
//	go run ./hack/apidoc config/crd/bases/*.yaml > docs/api.md
package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

type schema = apiextensionsv1.JSONSchemaProps

func main() {
	var out bytes.Buffer
	out.WriteString("# API reference\n\nGenerated from the CRDs by `make generate`. `kubectl explain leasedtask.spec --recursive` says the same.\n")
	for _, path := range os.Args[1:] {
		if err := document(&out, path); err != nil {
			fmt.Fprintf(os.Stderr, "apidoc: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
	if _, err := io.Copy(os.Stdout, &out); err != nil {
		fmt.Fprintf(os.Stderr, "apidoc: %v\n", err)
		os.Exit(1)
	}
}

func document(out *bytes.Buffer, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		return err
	}
	for _, v := range crd.Spec.Versions {
		root := v.Schema.OpenAPIV3Schema
		fmt.Fprintf(out, "\n## %s (%s/%s)\n\n%s\n", crd.Spec.Names.Kind, crd.Spec.Group, v.Name, prose(root.Description))
		for _, part := range []string{"spec", "status"} {
			if s, ok := root.Properties[part]; ok {
				fmt.Fprintf(out, "\n### %s %s\n\n%s\n\n| field | type | |\n|---|---|---|\n", crd.Spec.Names.Kind, part, prose(s.Description))
				fields(out, part, &s)
				rules(out, &s)
			}
		}
	}
	return nil
}

// fields prints one table row for every field below s, depth first.
func fields(out *bytes.Buffer, at string, s *schema) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		path := at + "." + name
		required := ""
		if slices.Contains(s.Required, name) {
			required = " **Required.**"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s%s |\n", path, typeOf(&p), cell(p.Description), required)
		switch {
		case isPodTemplate(&p), name == "conditions": // documented by Kubernetes
		case p.Items != nil && p.Items.Schema != nil:
			fields(out, path+"[]", p.Items.Schema)
		default:
			fields(out, path, &p)
		}
	}
}

// rules lists what the API server checks beyond types and limits, in the words of its answers.
func rules(out *bytes.Buffer, s *schema) {
	var lines []string
	collect(&lines, "", s)
	if len(lines) > 0 {
		fmt.Fprintf(out, "\nThe API server also checks:\n\n%s", strings.Join(lines, ""))
	}
}

func collect(lines *[]string, at string, s *schema) {
	for _, r := range s.XValidations {
		if r.Message != "" {
			*lines = append(*lines, fmt.Sprintf("- `%s`: %s\n", strings.TrimPrefix(at+r.FieldPath, "."), prose(r.Message)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		collect(lines, at+"."+name, &p)
	}
	if s.Items != nil && s.Items.Schema != nil {
		collect(lines, at+"[]", s.Items.Schema)
	}
}

func typeOf(s *schema) string {
	switch {
	case isPodTemplate(s):
		return "PodTemplateSpec"
	case len(s.Enum) > 0:
		var values []string
		for _, e := range s.Enum {
			values = append(values, strings.Trim(string(e.Raw), `"`))
		}
		return strings.Join(values, ", ")
	case s.Items != nil && s.Items.Schema != nil:
		return "list of " + typeOf(s.Items.Schema) + atMost(s.MaxItems)
	case s.Type == "" && s.XPreserveUnknownFields != nil:
		return "any JSON"
	case s.Type == "string":
		return "string" + atMost(s.MaxLength)
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%s, %.0f to %.0f", s.Type, *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("%s, at least %.0f", s.Type, *s.Minimum)
	default:
		return s.Type
	}
}

func atMost(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf(", at most %d", *n)
}

func isPodTemplate(s *schema) bool {
	_, ok := s.Properties["spec"].Properties["containers"]
	return ok
}

// prose keeps text as text in Markdown: angle brackets would be HTML.
func prose(s string) string {
	return strings.ReplaceAll(s, "<", "&lt;")
}

func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(prose(s)), " "), "|", `\|`)
}
