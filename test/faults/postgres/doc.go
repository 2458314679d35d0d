// Package postgres runs a PostgreSQL server for as long as a test lasts.
//
// It is the real one, from the distribution's package, which is installed if it is missing and we are root. It has a data
// directory of its own, runs as the user postgres, listens on the addresses that it is told and nowhere else, wants a
// password that is made up at each start, and does not wait for the disk. [Server.Stop] leaves nothing behind.
package postgres
