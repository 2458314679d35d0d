// Package agenttest is an API server small enough to script: it holds one Lease, applies JSON patches to it with the library
// that the real one uses, keeps the rules of the mailbox's admission policy, and fails as a test tells it to.
package agenttest
