// Package journal is what the processes of a worker write on their node about themselves, and how it is read.
//
// Each process has a file of its own, one JSON object a line: who it is at its start, a beat every [Interval], and its end if
// it ends by itself. Nobody writes for it. So the last line says how long it lived at least, whatever killed it, and a pause
// between two beats says that it was not running: frozen, or starved.
//
//	{"at":"...","start":{"task":"t1","attempt":2,"token":17592186044999,"pod":"t1-2-x7k2p","role":"main","pid":8}}
//	{"at":"..."}
//	{"at":"...","exit":0}
//
// Every line is one write, so lines are whole; what follows a file's last newline was not written to its end.
package journal
