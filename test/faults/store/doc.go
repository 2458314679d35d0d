// Package store is a database that compares fencing tokens, as docs/agent.md tells users to build it: a high-water mark for
// each task that only rises, and rows that are let in only under it.
//
// One statement, so one transaction, raises the mark and writes the row, or notes that the row was refused. The row's number
// is drawn while the mark's row is locked; so for one task the numbers are in the order of the commits.
package store
