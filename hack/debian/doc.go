// Package debian finds out which Debian packages the local cluster or a test lacks, and installs them when it may.
//
// A package counts as there when the files that we use are there, so other distributions work too once their packages are installed by
// hand.
package debian
