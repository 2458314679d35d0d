// Package cluster is the local cluster: its layout, and what the commands do to it.
//
// # Rules
//
//   - One cluster a machine. A lock serialises all commands that start or stop components.
//   - State is on disk, never in a daemon of ours: a pid file for each component, and a marker once the cluster was complete. So `down` and `up`
//     work from any state, also after this program was killed half-way.
//   - Only what is provably ours is ended: components by pid file (package process), containers by the cgroup of a container in our
//     containerd's state, shims by our socket's path in their arguments.
//   - What a node mounts is in a mount namespace that dies with its last process, so nothing stays mounted on the host, and removing the
//     directories cannot delete through a mount.
//   - What the cluster changes on the host (five directories, five kernel settings) is noted before, and set back by `down`.
//   - No packet leaves the machine: nodes have no default route, the host does not forward, and addresses of Services and Pods that do not
//     exist are refused.
//
// # Network
//
//	host     lhbr0 10.89.0.1      etcd, API server, controller manager, scheduler; routes to both Pod networks
//	 |- lhv1 -- lh-n1 10.89.0.11  Pods 10.244.1.0/24, one cable each (CNI ptp)
//	 `- lhv2 -- lh-n2 10.89.0.12  Pods 10.244.2.0/24
//
// Services are 10.96.0.0/16, by kube-proxy inside the nodes; the host has none, so the API server dials webhooks at the Pod's address.
// Pods are on point-to-point cables, not on a bridge, so that every packet is routed: on a bridge, the answer of a Service's Pod on the same node
// would go around kube-proxy's rules unless the kernel filters bridged traffic.
package cluster
