package cluster

import (
	"path/filepath"
	"time"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

// component is one long-lived process.
type component struct {
	name   string
	launch process.Launch
}

const (
	etcd              = "etcd"
	apiserver         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"

	// stopGrace is between SIGTERM and SIGKILL. Short: all state that counts is in etcd, and an API server would drain its watches for long.
	stopGrace = 2 * time.Second
)

// Names of a node's components.
func (n Node) containerd() string { return n.Name + "-containerd" }
func (n Node) kubelet() string    { return n.Name + "-kubelet" }
func (n Node) kubeProxy() string  { return n.Name + "-kube-proxy" }

// kubernetesBinaries are those that a cluster runs.
var kubernetesBinaries = []string{etcd, apiserver, controllerManager, scheduler, "kubelet", "kube-proxy"}

// components lists all of them; bins holds the path of each Kubernetes binary.
func (l Layout) components(bins map[string]string, containerd string) []component {
	all := []component{
		l.component(etcd, l.etcdArgs(bins[etcd])),
		l.component(apiserver, l.apiserverArgs(bins[apiserver])),
		l.component(controllerManager, l.controllerManagerArgs(bins[controllerManager])),
		l.component(scheduler, l.schedulerArgs(bins[scheduler])),
	}
	for _, n := range l.Nodes {
		runtime := l.component(n.containerd(), []string{containerd, "--config", n.configPaths()["containerd.toml"]})
		runtime.launch.NetNS, runtime.launch.OwnMounts, runtime.launch.Binds = n.NetNS(), true, n.binds()

		kubelet := l.component(n.kubelet(), l.kubeletArgs(bins["kubelet"], n))
		kubelet.launch.NetNS, kubelet.launch.MountsOf = n.NetNS(), l.pidFile(n.containerd())

		proxy := l.component(n.kubeProxy(), []string{bins["kube-proxy"], "--config=" + n.configPaths()["kube-proxy.yaml"]})
		proxy.launch.NetNS = n.NetNS()

		all = append(all, runtime, kubelet, proxy)
	}
	return all
}

func (l Layout) component(name string, argv []string) component {
	return component{name: name, launch: process.Launch{PIDFile: l.pidFile(name), Argv: argv}}
}

func (n Node) binds() []process.Bind {
	var binds []process.Bind
	for _, dir := range hostDirs {
		binds = append(binds, process.Bind{From: filepath.Join(n.Dir, "host", dir), To: dir})
	}
	return binds
}

func (l Layout) etcdArgs(bin string) []string {
	return []string{
		bin, "--name=local", "--data-dir=" + filepath.Join(l.Dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + etcdClient, "--advertise-client-urls=" + etcdClient,
		"--listen-peer-urls=" + etcdPeer, "--initial-advertise-peer-urls=" + etcdPeer, "--initial-cluster=local=" + etcdPeer,
	}
}

func (l Layout) apiserverArgs(bin string) []string {
	return []string{
		bin, "--bind-address=" + hostAddress, "--advertise-address=" + hostAddress, "--secure-port=" + apiPort,
		"--etcd-servers=" + etcdClient,
		"--tls-cert-file=" + l.pkiFile("apiserver.crt"), "--tls-private-key-file=" + l.pkiFile("apiserver.key"),
		"--client-ca-file=" + l.pkiFile("ca.crt"), "--token-auth-file=" + l.pkiFile("tokens.csv"),
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--service-cluster-ip-range=" + serviceCIDR, "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.pkiFile("sa.pub"), "--service-account-signing-key-file=" + l.pkiFile("sa.key"),
		"--enable-aggregator-routing=true", // webhooks are dialled at the Pod's address: the host has no kube-proxy
		"--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=" + l.pkiFile("ca.crt"),
		"--kubelet-client-certificate=" + l.pkiFile("kubelet-client.crt"), "--kubelet-client-key=" + l.pkiFile("kubelet-client.key"),
		"--requestheader-client-ca-file=" + l.pkiFile("front-proxy-ca.crt"), "--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.pkiFile(frontProxy+".crt"), "--proxy-client-key-file=" + l.pkiFile(frontProxy+".key"),
		"--audit-policy-file=" + l.auditPolicy(), "--audit-log-path=" + l.auditLog(),
		"--audit-log-maxsize=" + auditMaxMegabytes, "--audit-log-maxbackup=" + auditMaxBackups,
	}
}

func (l Layout) controllerManagerArgs(bin string) []string {
	return append(l.clientArgs(bin, controllerManager),
		"--service-account-private-key-file="+l.pkiFile("sa.key"), "--root-ca-file="+l.pkiFile("ca.crt"),
		"--cluster-signing-cert-file="+l.pkiFile("ca.crt"), "--cluster-signing-key-file="+l.pkiFile("ca.key"),
		"--use-service-account-credentials=true", "--node-monitor-grace-period="+NodeMonitorGracePeriod,
		"--flex-volume-plugin-dir="+filepath.Join(l.Dir, "volume-plugins"),
	)
}

func (l Layout) schedulerArgs(bin string) []string { return l.clientArgs(bin, scheduler) }

func (l Layout) clientArgs(bin, name string) []string {
	config := l.kubeconfig(name)
	return []string{
		bin, "--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
		"--bind-address=" + hostAddress, "--leader-elect=false",
	}
}

func (l Layout) kubeletArgs(bin string, n Node) []string {
	return []string{
		bin, "--config=" + n.configPaths()["kubelet.yaml"], "--kubeconfig=" + l.kubeconfig(n.Name),
		"--hostname-override=" + n.Name, "--node-ip=" + n.Address(),
		"--root-dir=" + filepath.Join(n.Dir, "kubelet"), "--cert-dir=" + filepath.Join(n.Dir, "kubelet", "pki"),
	}
}
