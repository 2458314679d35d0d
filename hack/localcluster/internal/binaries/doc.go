// Package binaries builds Kubernetes from its Go modules, once for each version.
//
// The module hack/localcluster/tools pins every version. The results lie outside the checkout in
// ${XDG_CACHE_HOME:-~/.cache}/leasehold/k8s-<version>/, so that fresh clones share them. A binary is built under a temporary name and
// then renamed, so one that exists is whole; a lock file lets one of several callers build while the others wait for it.
//
// When KUBEBUILDER_ASSETS is set, the binaries in that directory are used instead.
package binaries
