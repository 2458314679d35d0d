// Command run hurts a real cluster at random while tasks run on it, and lets the checker judge. As root on Linux:
//
//	go run ./test/faults/run -duration 30m -tasks 200 -report report.md
//
// It exits 1 if the checker finds a violation. See package storm for what happens, package checker for what is judged. The
// local cluster is started if it is not up, and ended; LEASEHOLD_KEEP=1 leaves it, with the journals, to be looked at.
package main
