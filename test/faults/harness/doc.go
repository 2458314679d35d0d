// Package harness sets up what runs of faults need, and hands over the evidence: the local cluster with Leasehold installed, a
// PostgreSQL that Pods can reach, a namespace, and workers that write journals to a directory that both nodes share, as they
// share the machine.
//
// The API server may be stopped and the operator killed while it is used. Requests of its own are tried again; see [Harness.Try].
package harness
