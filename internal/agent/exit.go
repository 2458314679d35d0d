package agent

import (
	"errors"
	"io/fs"
)

// Exit codes of the agent. Apart from these it exits as the command did. Nothing is decided by them: the submission is.
const (
	ExitUsage     = 120 // called with wrong arguments or settings
	ExitNotHeld   = 121 // the term was not this process's to claim; the command never ran
	ExitFenced    = 122 // the term was lost, the command was killed
	ExitTreeAlive = 123 // the tree could not be killed in time; nothing was submitted, and the kernel kills it now
	ExitStopped   = 143 // told to stop before the command was started

	exitNotExecutable = 126
	exitNotFound      = 127
)

// startExitCode is the code that a shell gives for a command that cannot be started.
func startExitCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}
