// Command localcluster runs a real Kubernetes cluster with two nodes on this machine, without a registry, a container builder or prebuilt
// Kubernetes binaries. Needed are Go, root on a Linux machine (tested: Debian 12 with cgroup v1), and 2 cores.
//
//	go run ./hack/localcluster up
//	export KUBECONFIG=$(go run ./hack/localcluster kubeconfig)
//	export PATH=$(go run ./hack/localcluster binaries kubectl helm):$PATH
//	go run ./hack/localcluster down
//
// Nothing is simulated: etcd, the control plane, and for each node (lh-n1, lh-n2) a kubelet, a kube-proxy and a containerd with runc, in a network
// namespace of its own. So failures can be real as well: a node loses its network, its kubelet or the API server, and a Pod's processes
// are frozen where they are. docs/local-cluster.md lists the commands.
//
// # Where to start reading
//
//   - commands.go: the command line.
//   - internal/cluster: what a cluster is; up.go and down.go are the two ways through it.
//   - internal/process: how a component is started, and why only our own are ever ended.
//   - internal/binaries: Kubernetes from its Go modules (tools/go.mod pins the versions), built once for each version.
//   - hack/debian: containerd, runc and the like, from Debian's packages.
//   - pause: PID 1 of a Pod's sandbox; it and a stand-in for busybox:1.36 are packed by hack/image/archive.
package main
