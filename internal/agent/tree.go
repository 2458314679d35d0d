package agent

import (
	"syscall"

	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// Tree is the command and every process that came from it.
type Tree interface {
	// Start starts the command, with some more variables in its environment. An error that is fs.ErrNotExist means that it
	// was not found.
	Start(environ ...string) error
	// Signal passes a signal on to the command. A stop reaches its whole process group, so that a pipeline or a wrapper
	// script does not keep it from the worker; other signals reach the command alone.
	Signal(sig syscall.Signal, group bool)
	// Kill sends a signal to every process of the tree.
	Kill(sig syscall.Signal)
	// Exited receives once, when the command has ended. What it left may live on.
	Exited() <-chan holder.Exit
	// Empty is closed when the command has ended and nothing that came from it is left.
	Empty() <-chan struct{}
}
