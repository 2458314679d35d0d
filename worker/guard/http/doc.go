// Package httpguard guards a service that cannot check tokens itself: a reverse proxy in front of it checks a signed Fencing-Token header for
// each resource, and lets one guarded request at a time through to a resource.
//
// Guarantee: while the upstream answers, no request with a token below the mark of its resource reaches the upstream, and no two guarded
// requests for one resource are there at once. Marks are on disk before a request is forwarded, and survive the proxy.
//
// The guarantee is weaker than that of a guard inside a store, because check and write are two steps. When the upstream does not answer
// in time, or the connection or the proxy breaks, nobody knows whether the write happened, or will still happen, after a newer one
// even. The proxy says so: the worker gets an [guard.UncertainError], the resource is marked as uncertain on disk until a later request is
// answered, and the answers until then say so to newer workers (Fencing-Previous: uncertain).
//
// An answer of 502, 503, 504, or 520 and above is taken for no answer, and passed on as uncertain: it may be the word of a gateway in between
// (a load balancer, a service mesh), which says the same whether it has sent the request on or not. A service that means "nothing was done"
// says so with another status: 429, say. Any other answer, 500 too, is the service's own: it is done with the request, well or not.
//
// No guarantee: for requests that reach the upstream past this proxy (close that way by network policy or credentials); for GET,
// HEAD and OPTIONS requests that change something; for upstreams that answer first and write later; for two resources by name that are
// one in truth ([Config].Resource decides, and paths that are not in plain form are refused).
//
// One proxy uses one ledger, under a lock; a standby starts when the first has ended.
//
// Cost: one more hop for each request; one write to disk that is flushed before it is forwarded, and one that is not once it is answered; memory and
// disk for each resource ever written (some 200 bytes). Requests to one resource queue up, and flushes come one after another: with a disk that
// takes 2 ms for one, a proxy takes no more than 500 guarded requests a second.
//
// Tokens are JWTs (HS256) with the claims tok, res and exp, so any language can make them. The signature keeps everybody without a key from
// raising a mark, the expiry ends a leaked one, and a key can be limited to a prefix of resources. Somebody with a key can still raise a mark
// too high, and so lock the resource: [Ledger.Reset] lowers it, and writes down who did it and why, before.
package httpguard
