// Package certificate keeps the webhook's serving certificate: in a Secret that all replicas share, renewed long before it expires,
// served from memory, and trusted by the API server before it is served.
//
// The certificates themselves are made by client-go, each with an authority of its own whose key is thrown away; renewing it changes
// both. So there is no key that could sign anything else, and one thing that rotates.
//
//	pair.go    reading a certificate and its authority; is it due?
//	keeper.go  the Secret, the webhook configuration, and what is served
package certificate
