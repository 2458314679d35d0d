// Package outage makes a retry storm and watches what becomes of it: all tasks of a queue call a gateway that hangs, then answers all of
// them 503 in the same moment, and goes on so for a while.
//
// What is judged is not what the operator says of itself: attempts start when the API server has made their Pods, and calls are what
// the gateway has seen. The pauses on record (nextAttemptTime) are judged beside them, because a cluster that starts Pods slowly
// hides how its retries are spread.
//
//	load.go     the queue and its tasks
//	gateway.go  the gateway, and the calls that it saw
//	witness.go  what the API server tells of Pods, tasks and the queue
//	measure.go  all of it together
//	record.go   what was seen, in figures
//	judge.go    what must hold of it
//
// The command in run/ measures on a cluster and draws the figures; the end-to-end test of scenario 4 uses the same code, and so does a
// test against an API server alone, whose workers are played.
package outage
