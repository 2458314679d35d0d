// Command takeover measures how long it takes until a lost attempt is replaced. As root on Linux:
//
//	go run ./test/faults/takeover -samples 50 -report report.md
//
// Takeover time is from the last beat of attempt 1, by whichever of its processes, to the first beat of attempt 2: the time in
// which nobody works. Both are read from the journals that the workers write, so no clock but the machine's own is in it, and
// nothing that the operator says. D is 10 s and the back-off 1 s without jitter, in every story:
//
//   - clean exit: the command exits 1.
//   - worker's death: its agent gets SIGKILL, and the kernel kills what else is in the container.
//   - node loss: the node's cable is cut under ten tasks at once. The node is cordoned just before: the scheduler goes on to take
//     a lost node for a good one for 20 s, and would send half of the next attempts there.
//
// For the last two there is also the time from the fault itself, which for a lost node includes that its worker works on until it
// fences itself.
package main
