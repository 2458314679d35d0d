package cluster

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"text/template"
)

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.New("").Option("missingkey=error").ParseFS(templateFiles, "templates/*"))

func render(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// nodeConfig is what the nodes' templates see.
type nodeConfig struct {
	Node                      Node
	PauseImage                string
	PKI, Kubeconfigs          string
	PodCIDR, DNSAddress       string
	NodeLeaseSeconds, MaxPods int
}

// configFiles renders all files that are the same for each `up`: path to content. Certificates and tokens are not among them.
func (l Layout) configFiles() (map[string][]byte, error) {
	policy, err := render("audit-policy.yaml", nil)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{l.auditPolicy(): policy}
	for _, n := range l.Nodes {
		data := nodeConfig{
			Node: n, PauseImage: pauseImage, PKI: l.pki(), Kubeconfigs: l.kubeconfigs(), PodCIDR: podCIDR, DNSAddress: dnsAddress,
			NodeLeaseSeconds: nodeLeaseSeconds, MaxPods: maxPods,
		}
		for name, path := range n.configPaths() {
			content, err := render(name, data)
			if err != nil {
				return nil, err
			}
			files[path] = content
		}
	}
	return files, nil
}

func (n Node) configPaths() map[string]string {
	return map[string]string{
		"containerd.toml": filepath.Join(n.Dir, "containerd.toml"),
		"cni.conflist":    filepath.Join(n.Dir, "cni", "10-leasehold.conflist"),
		"kubelet.yaml":    filepath.Join(n.Dir, "kubelet.yaml"),
		"kube-proxy.yaml": filepath.Join(n.Dir, "kube-proxy.yaml"),
	}
}

// fingerprint tells whether a running cluster is the one that this program would start.
func fingerprint(files map[string][]byte, components []component) (string, error) {
	launches := map[string]any{}
	for _, c := range components {
		launches[c.name] = c.launch
	}
	content, err := json.Marshal([]any{files, launches}) // maps are encoded in the order of their keys
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}
