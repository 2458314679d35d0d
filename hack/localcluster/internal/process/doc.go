// Package process starts long-lived components and later ends exactly those.
//
// A pid alone proves nothing: the kernel hands it out again. An [Identity] is the pid with the process's start time (kept by
// exec) and the boot id, so a pid file that outlived its process, or the machine's last boot, is recognised. Signals go through a pidfd that
// is opened before the identity is checked, so nothing can take the pid's place in between.
//
// Start runs our own executable as a launcher, which writes its pid file, enters the node's namespaces and then becomes the component by
// exec. So there is never a running component without a pid file, whenever the parent is killed.
package process
