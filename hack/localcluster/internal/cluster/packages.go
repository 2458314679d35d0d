package cluster

import "github.com/leasehold-io/leasehold/hack/debian"

// packages are what the cluster runs or runs on.
var packages = []debian.Requirement{
	{Package: "containerd", Files: []string{"containerd", "containerd-shim-runc-v2", "ctr"}},
	{Package: "runc", Files: []string{"runc"}},
	{Package: "containernetworking-plugins", Files: []string{"/usr/lib/cni/ptp", "/usr/lib/cni/host-local", "/usr/lib/cni/loopback"}},
	{Package: "iptables", Files: []string{"iptables", "iptables-restore"}},
	{Package: "iproute2", Files: []string{"ip"}},
	{Package: "util-linux", Files: []string{"unshare", "nsenter"}},
	{Package: "mount", Files: []string{"mount", "umount"}},
	{Package: "busybox-static", Files: []string{"/bin/busybox"}, Static: true},
}
