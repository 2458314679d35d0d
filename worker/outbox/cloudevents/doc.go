// Package cloudevents delivers events by HTTP POST, as CloudEvents 1.0 in binary mode: the attributes are ce- headers, the data
// is the body as it is.
//
// The receiver gets the id in ce-id, the key in ce-partitionkey and the sequence in ce-sequence (zero-padded to twenty digits, so
// that it compares as text). It answers 2xx when the event is safe with it, and it must expect repeats: any answer can get lost.
//
//	2xx                                          taken
//	400, 413, 414, 415, 422, 431                 rejected: this event will never be taken, it is parked
//	408, 425, 429, 502, 503, 504, no answer      unavailable: not the event's fault
//	3xx, 401, 403, 404, 405, 407, 410            unavailable too: the sink is set up wrongly, and the events should wait for the repair
//	any other                                    a failure on this event: tried again, parked when the tries are used up
package cloudevents
