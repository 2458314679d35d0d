package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	// DirEnv overrides the state directory.
	DirEnv     = "LEASEHOLD_CLUSTER_DIR"
	defaultDir = "/var/lib/leasehold-localcluster"
	// runDir is fixed and short: a Unix socket's path has at most 107 bytes. So there is one cluster a machine.
	runDir   = "/run/leasehold-localcluster"
	lockFile = "/run/leasehold-localcluster.lock"

	bridge      = "lhbr0"
	hostAddress = "10.89.0.1"
	nodeNetBits = 24
	podCIDR     = "10.244.0.0/16"
	serviceCIDR = "10.96.0.0/16"
	serviceIP   = "10.96.0.1"  // of the Service "kubernetes"
	dnsAddress  = "10.96.0.10" // where a DNS Service would be; see the kubelet's template
	apiPort     = "6443"
	apiServer   = "https://" + hostAddress + ":" + apiPort
	etcdClient  = "http://127.0.0.1:23790"
	etcdPeer    = "http://127.0.0.1:23800"
	// cgroupParent is where containerd puts the containers of the kubelet, one cgroup each, whatever node they are on.
	cgroupParent = "/k8s.io"

	// NodeMonitorGracePeriod is how long a node may miss its lease renewals before it is NotReady (stock: 50 s). It is lowered so that
	// tests of node loss take less time, and not below 4 renewals, because the machine is small.
	NodeMonitorGracePeriod = "20s"
	nodeLeaseSeconds       = 20
	maxPods                = 200

	// The audit log holds at most (backups + 1) * size: 300 MB.
	auditMaxMegabytes = "100"
	auditMaxBackups   = "2"
)

// Node is one of the two nodes.
type Node struct {
	Name  string
	Index int
	Dir   string // below the state directory
	Run   string // sockets
}

// Address is the node's address on the bridge.
func (n Node) Address() string { return fmt.Sprintf("10.89.0.1%d", n.Index) }

// PodCIDR is the network of the node's Pods.
func (n Node) PodCIDR() string { return fmt.Sprintf("10.244.%d.0/24", n.Index) }

// NetNS is the file of the node's network namespace.
func (n Node) NetNS() string { return filepath.Join("/run/netns", n.Name) }

// ContainerdSocket is where the node's containerd listens.
func (n Node) ContainerdSocket() string { return filepath.Join(n.Run, "containerd.sock") }

// HostLink is the host's end of the node's cable; taking it down cuts the node off.
func (n Node) HostLink() string { return fmt.Sprintf("lhv%d", n.Index) }

// bundles has a directory for each container that the node's containerd has or had, named after it.
func (n Node) bundles() string {
	return filepath.Join(n.Run, "state", "io.containerd.runtime.v2.task", "k8s.io")
}

// Layout says where everything lies.
type Layout struct {
	Dir   string
	Nodes []Node
}

// NewLayout is the layout below dir; empty means $LEASEHOLD_CLUSTER_DIR or the default.
func NewLayout(dir string) (Layout, error) {
	if dir == "" {
		dir = os.Getenv(DirEnv)
	}
	if dir == "" {
		dir = defaultDir
	}
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
		return Layout{}, fmt.Errorf("state directory %q is not an absolute, clean path", dir)
	}
	l := Layout{Dir: dir}
	for i := 1; i <= 2; i++ {
		name := fmt.Sprintf("lh-n%d", i)
		l.Nodes = append(l.Nodes, Node{
			Name: name, Index: i, Dir: filepath.Join(dir, "nodes", name), Run: filepath.Join(runDir, fmt.Sprintf("n%d", i)),
		})
	}
	return l, nil
}

// Node finds a node by name.
func (l Layout) Node(name string) (Node, error) {
	for _, n := range l.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return Node{}, fmt.Errorf("unknown node %q: there are %s and %s", name, l.Nodes[0].Name, l.Nodes[1].Name)
}

// AdminKubeconfig is for a user in the group system:masters.
func (l Layout) AdminKubeconfig() string { return filepath.Join(l.Dir, "admin.kubeconfig") }

func (l Layout) pki() string                { return filepath.Join(l.Dir, "pki") }
func (l Layout) kubeconfigs() string        { return filepath.Join(l.Dir, "kubeconfigs") }
func (l Layout) adminToken() string         { return filepath.Join(l.pki(), "admin.token") }
func (l Layout) pids() string               { return filepath.Join(l.Dir, "pids") }
func (l Layout) pidFile(name string) string { return filepath.Join(l.pids(), name) }
func (l Layout) logs() string               { return filepath.Join(l.Dir, "logs") }
func (l Layout) logFile(name string) string { return filepath.Join(l.logs(), name+".log") }
func (l Layout) auditLog() string           { return filepath.Join(l.Dir, "audit.log") }
func (l Layout) auditPolicy() string        { return filepath.Join(l.Dir, "audit-policy.yaml") }
func (l Layout) pkiFile(name string) string { return filepath.Join(l.pki(), name) }
func (l Layout) completeMarker() string     { return filepath.Join(l.Dir, "complete") }
func (l Layout) hostBefore() string         { return filepath.Join(l.Dir, "host-before.json") }
func (l Layout) kubeconfig(who string) string {
	return filepath.Join(l.kubeconfigs(), who+".kubeconfig")
}

// ownerFile names the state directory of the cluster that is on this machine.
func ownerFile() string { return filepath.Join(runDir, "state-dir") }
