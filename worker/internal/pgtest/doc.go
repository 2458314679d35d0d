// Package pgtest runs a PostgreSQL server for as long as the tests of one package last, and makes a database for each test.
//
// It is the real server: the one of Debian's package postgresql, installed if it is missing and we are root, or any that has
// initdb and postgres in PATH. It has a data directory of its own, listens on loopback only, wants a password that is made up
// at each start, and does not wait for the disk unless it is asked to. Tests are skipped, with the reason, where it cannot be had.
package pgtest
