// Package flock is a lock file: one holder at a time, freed by the kernel when its holder dies.
//
// A child process that inherits the file keeps the lock too, until it closes its copy. hack/localcluster uses that to keep the lock
// until each component that it starts has written its pid file, even when `up` is killed in between.
package flock
