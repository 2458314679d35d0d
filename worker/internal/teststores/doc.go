// Package teststores runs the real stores that the tests of this module need: PostgreSQL and Redis from their Debian packages, and the
// S3 gateway that tools/go.mod pins.
//
// A test binary asks for its stores in TestMain ([Main]) and gets their addresses from the environment, so that its examples find them
// where a user's program would. Each store listens on loopback alone, has a data directory of its own, ends with the test binary
// however that ends, and leaves nothing behind. As root the packages are installed when they are missing. Where a store cannot be had,
// what needs it is skipped and says why.
//
// An address that is already in the environment is used as it is: a developer can point the tests at a server of their own.
package teststores
