package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// namespace is where config/ installs; the chart installs into the release's.
const namespace = "leasehold-system"

// Placeholders survive the YAML encoder and become template actions afterwards.
const (
	labelsMark    = "LEASEHOLD_LABELS"
	namespaceMark = "LEASEHOLD_NAMESPACE"
)

// template is one generated file of the chart.
type template struct {
	name      string   // in charts/leasehold/templates
	sources   []string // below config: a kustomization's directory, or a file
	condition string   // an expression over .Values, or empty
	keep      bool     // stays in the cluster when the release is uninstalled
}

var templates = []template{
	{name: "crds.yaml", sources: []string{"crd"}, condition: ".Values.crds.install", keep: true},
	{name: "admission.yaml", sources: []string{"admission"}},
	{name: "rbac.yaml", sources: []string{"rbac"}},
	{name: "flowcontrol.yaml", sources: []string{"flowcontrol"}, condition: ".Values.flowControl.enabled"},
	{name: "manager.yaml", sources: []string{"manager/service.yaml", "manager/pdb.yaml"}},
}

func generate(config, out string) error {
	for _, t := range templates {
		var files []string
		for _, s := range t.sources {
			fs, err := sourceFiles(filepath.Join(config, s))
			if err != nil {
				return err
			}
			files = append(files, fs...)
		}
		text, err := t.render(files)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if err := os.WriteFile(filepath.Join(out, t.name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sourceFiles returns path itself, or the resources that its kustomization lists.
func sourceFiles(path string) ([]string, error) {
	if strings.HasSuffix(path, ".yaml") {
		return []string{path}, nil
	}
	raw, err := os.ReadFile(filepath.Join(path, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var k struct {
		Resources []string `yaml:"resources"`
	}
	if err := yaml.Unmarshal(raw, &k); err != nil {
		return nil, err
	}
	for i, r := range k.Resources {
		k.Resources[i] = filepath.Join(path, r)
	}
	return k.Resources, nil
}

// render returns the text of the template, made from the documents in files.
func (t template) render(files []string) ([]byte, error) {
	var body bytes.Buffer
	enc := yaml.NewEncoder(&body)
	enc.SetIndent(2)
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for dec := yaml.NewDecoder(bytes.NewReader(raw)); ; {
			var doc yaml.Node
			if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", f, err)
			}
			t.mark(doc.Content[0])
			if err := enc.Encode(&doc); err != nil {
				return nil, err
			}
		}
	}
	text := strings.NewReplacer(
		"{{", `{{ "{{" }}`,
		"    "+labelsMark+": x\n", "    {{- include \"leasehold.labels\" . | nindent 4 }}\n",
		namespaceMark, "{{ .Release.Namespace }}",
	).Replace(body.String())
	head := "{{- /* Generated from config/" + strings.Join(t.sources, " and config/") + " by `make generate`. DO NOT EDIT. */ -}}\n"
	if t.condition != "" {
		return []byte(head + "{{- if " + t.condition + " }}\n" + text + "{{- end }}\n"), nil
	}
	return []byte(head + text), nil
}

// mark puts placeholders where the chart differs from config.
func (t template) mark(doc *yaml.Node) {
	meta := child(doc, "metadata")
	meta.Style = 0
	labels := child(meta, "labels")
	labels.Style = 0
	set(labels, labelsMark, "x")
	if t.keep {
		set(child(meta, "annotations"), "helm.sh/resource-policy", "keep")
	}
	markNamespace(doc)
}

func markNamespace(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "namespace" && n.Content[i+1].Value == namespace {
				n.Content[i+1].Value = namespaceMark
			}
		}
	}
	for _, c := range n.Content {
		markNamespace(c)
	}
}

// child returns the mapping under key and makes it when it is missing.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	c := &yaml.Node{Kind: yaml.MappingNode}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, c)
	return c
}

func set(n *yaml.Node, key, value string) {
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
}
