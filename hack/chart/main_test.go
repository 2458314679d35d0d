package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRenderMarksLabelsNamespaceAndBraces(t *testing.T) {
	src := filepath.Join(t.TempDir(), "a.yaml")
	in := `# Why it is so.
kind: Role
metadata: {name: a, namespace: leasehold-system}
rules:
- message: run '{{json .X}}'
`
	if err := os.WriteFile(src, []byte(in), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := template{sources: []string{"rbac"}, condition: ".Values.x", keep: true}.render([]string{src})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"{{- if .Values.x }}\n# Why it is so.\n",
		"  namespace: {{ .Release.Namespace }}\n",
		"  labels:\n    {{- include \"leasehold.labels\" . | nindent 4 }}\n",
		"    helm.sh/resource-policy: keep\n",
		`run '{{ "{{" }}json .X}}'`,
		"{{- end }}\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("missing %q in:\n%s", want, out)
		}
	}
}

func TestCompareIgnoresOwnershipLabelsOnly(t *testing.T) {
	tests := map[string]struct {
		helm, kustomize string
		wantDiff        bool
	}{
		"labels and the keep policy of the chart": {
			helm:      "kind: A\nmetadata: {name: a, labels: {helm.sh/chart: x}, annotations: {helm.sh/resource-policy: keep}}\n",
			kustomize: "kind: A\nmetadata: {name: a, labels: {app.kubernetes.io/name: leasehold}}\n",
		},
		"a namespace that helm makes itself": {
			helm:      "kind: A\nmetadata: {name: a}\n",
			kustomize: "kind: Namespace\nmetadata: {name: n}\n---\nkind: A\nmetadata: {name: a}\n",
		},
		"a rule": {
			helm:      "kind: A\nmetadata: {name: a}\nrules: [x]\n",
			kustomize: "kind: A\nmetadata: {name: a}\nrules: [y]\n",
			wantDiff:  true,
		},
		"a label that means something": {
			helm:      "kind: A\nmetadata: {name: a, labels: {rbac.authorization.k8s.io/aggregate-to-view: 'true'}}\n",
			kustomize: "kind: A\nmetadata: {name: a}\n",
			wantDiff:  true,
		},
		"an object that is missing": {
			helm:      "kind: A\nmetadata: {name: a}\n",
			kustomize: "kind: B\nmetadata: {name: a}\n",
			wantDiff:  true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h, err := parseObjects([]byte(tc.helm))
			if err != nil {
				t.Fatal(err)
			}
			k, err := parseObjects([]byte(tc.kustomize))
			if err != nil {
				t.Fatal(err)
			}
			if diff := compare(h, k); (diff != "") != tc.wantDiff {
				t.Errorf("want a difference: %v, got %q", tc.wantDiff, diff)
			}
		})
	}
}
