// Package kubernetes guards Kubernetes objects: the token is an annotation of the object, and the object is updated only if its
// resourceVersion is still the one whose token was checked.
//
// Guarantee: once [Update] with token T on an object has succeeded, no Update with a lower token on it succeeds any more. Check and write
// are one step of the API server.
//
// No guarantee: against writers that go around this package; across two objects; after a deletion, with which the mark is gone; for what a
// controller does because of the object. A write that the API server answers with an error and a Retry-After is repeated by client-go
// on its own, so change may be applied twice, or the repeat be refused as stale although the first try was done.
//
// Cost: a read before each write, and both again when another writer came between; one annotation.
//
// It is a module of its own, so that workers without Kubernetes do not inherit its API machinery. It takes the typed clients of client-go.
package kubernetes
