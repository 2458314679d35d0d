// Package faults is where Leasehold is hurt on purpose, on a real cluster, and judged by independent evidence.
//
//   - checker: what must hold, and who says so. Start here.
//   - storm: random faults. run is its command; the test in this package is a short one for CI.
//   - takeover: how long it takes until a lost attempt is replaced.
//   - harness, worker, order, journal, store, postgres: what these need.
package faults
