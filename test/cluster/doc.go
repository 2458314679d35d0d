// Package cluster gives end-to-end tests and the demo a cluster with Leasehold installed, and the hands to hurt it.
//
// The cluster is the project's own (hack/localcluster), kind, or whatever the current kubeconfig context names; see
// [Start]. What hurts nodes is available on the local one only.
package cluster
