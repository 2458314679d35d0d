// Command worker is what the tasks of test/faults run: work that leaves evidence.
//
// It starts a child that does nothing but say that it lives, and that it does not end when it ends itself: whatever the agent
// must kill. Both write journals on the node. Every second, and once at the end, it writes a row with its token to a store
// that compares tokens; it has succeeded only once the last row was let in. What it is to do, and how badly, its payload says.
package main
