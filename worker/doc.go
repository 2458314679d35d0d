// Package worker is the root of the module for authors of workers: small packages that make the stores of a worker refuse what a
// stale attempt writes, and that need nothing of Kubernetes.
//
// Begin with [github.com/leasehold-io/leasehold/worker/guard], and with docs/guides/fencing.md in the repository.
package worker
