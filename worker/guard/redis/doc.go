// Package redis guards writes to Redis: the check of the token and the commands are one Lua script, which Redis runs without a break.
//
// Guarantee: once a write with token T on a resource has happened, no write with a lower token on that resource happens any more,
// as long as Redis keeps the mark. Tokens are compared exactly over the whole 64 bits.
//
// No guarantee, and this is Redis's own limit: after a failover to a replica that had not received the write, or a restart with
// less than appendfsync always, the mark may be lower again, together with the data. Redis must not evict marks: [New]
// refuses a server whose maxmemory-policy is one of allkeys. Redis Cluster is not supported by this package, because its client repeats
// commands on its own; the script works there if mark and keys share a hash slot.
//
// Several commands are one step for others, but not all or nothing: Redis takes nothing back. When one fails (a value of another type, a user
// who may not run it), those before it are done, those after it are not, and the mark is raised: [PartialError]. Let the command that can fail be
// the first, or write what belongs together into one hash. A command takes up to [MaxArgs] arguments; write more with several, under the same
// token.
//
// Cost: one script call in place of one command, one key without expiry for each resource ever written. See docs/benchmarks.md.
//
// The script, fence.lua, can be used from any language.
package redis
