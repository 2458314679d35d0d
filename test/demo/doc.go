// Command demo tells three short stories on a real cluster with real objects, and checks that each ended as told.
//
// It is what `make demo` runs: it makes sure of a cluster with Leasehold installed (package cluster), then creates a few tasks
// in the namespace "demo", hurts their workers from outside, and says line by line what the objects say. The tasks stay, to be
// looked at; the next run removes them first. What the tools behind it print goes to bin/demo.log.
package main
