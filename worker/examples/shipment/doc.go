// Package shipment is an example of reconciliation: an external API as they are (carrier), and a worker that asks it to ship, loses the
// acknowledgement, and has a probe find out what became of the call (ship). task.yaml has both in it.
//
// docs/guides/idempotency.md in the repository tells the story. It is an example to read and to run in tests, not a carrier.
package shipment
