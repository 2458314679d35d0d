package agent

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// notes is what stands on the Lease of what the command has said, as far as is known, and what it was refused. Only the main loop
// writes to it.
type notes struct {
	progress, checkpoint string
	refused              fencing.Note
}

// settle takes the answer to a renewal that carried a note. One that was refused for what it carried is not sent again: the next
// renewal goes without, so that a note never costs the term.
func (n *notes) settle(sent fencing.Note, answer fencing.Answer) {
	switch answer {
	case fencing.Accepted:
		if sent.Progress != nil {
			n.progress = *sent.Progress
		}
		if sent.Checkpoint != nil {
			n.checkpoint = *sent.Checkpoint
		}
	case fencing.Invalid:
		n.refused = sent
	default: // nobody knows; the same is sent again
	}
}

// note is what the next renewal has to carry: what has changed, and was not refused. It waits for the checkpoint for a while.
func (a *Agent) note(known notes, wait time.Duration) (note fencing.Note) {
	fresh := func(is string, stands string, refused *string) *string {
		if is == stands || refused != nil && is == *refused {
			return nil
		}
		return &is
	}
	if p := a.words.lastProgress(); p != nil {
		note.Progress = fresh(p.Encode(), known.progress, known.refused.Progress)
	}
	var checkpoint string
	err := a.disk.within(wait, func() (err error) {
		checkpoint, err = readCheckpoint(a.Config.CheckpointPath)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist): // the command has no checkpoint, or took it away: what stands, stands
	case err != nil:
		a.words.once(func() { a.Log.Warn("The checkpoint file is not taken", "error", err) })
	default:
		note.Checkpoint = fresh(checkpoint, known.checkpoint, known.refused.Checkpoint)
	}
	return note
}

// leaveCheckpoint gives the command what the attempt before left for it.
func (a *Agent) leaveCheckpoint() {
	if a.notes.checkpoint == "" {
		return
	}
	if err := replaceFile(a.Config.CheckpointPath, a.notes.checkpoint); err != nil {
		a.Log.Warn("The checkpoint file cannot be written", "error", err)
	}
}

var (
	errNoCheckpoint       = errors.New("it is no regular file")
	errCheckpointTooLarge = errors.New("it has more than 1024 bytes")
	errCheckpointNoText   = errors.New("it is not UTF-8 text")
)

// readCheckpoint reads what the command wants the next attempt to find. As with the result, the command has chosen what stands there.
func readCheckpoint(path string) (string, error) {
	file, err := openOwn(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // read only
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(errNoCheckpoint, err)
	}
	content, err := io.ReadAll(io.LimitReader(file, fencing.MaxCheckpointBytes+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > fencing.MaxCheckpointBytes:
		return "", errCheckpointTooLarge
	case !utf8.Valid(content):
		return "", errCheckpointNoText
	}
	return string(content), nil
}

// replaceFile makes a file that appears with its content, or replaces one. The command may write to it.
func replaceFile(path, content string) error {
	draft := path + ".new"
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
