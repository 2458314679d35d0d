// Package jetstream delivers events to NATS JetStream, as CloudEvents in binary mode.
//
// The subject is a prefix and the event's type. The id is the header Nats-Msg-Id, so that a stream drops repeats that come
// within its duplicate window (two minutes unless the stream says otherwise); the key, the sequence and the other attributes
// are ce- headers. An event counts as delivered when the stream has acknowledged it.
//
// A repeat that comes later than the window is stored again: a window as long as the outages that are expected keeps it rare, a
// consumer that remembers ids deals with the rest.
package jetstream
