package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// readResult reads what the command left in its result file. The command has chosen what stands there, so a link is not
// followed, a FIFO not waited for, and no more is read than may be submitted.
func readResult(path string) result {
	invalid := func(format string, args ...any) result {
		return result{Written: true, Reason: fencing.ReasonResultInvalid, Message: fmt.Sprintf(format, args...)}
	}
	file, err := openOwn(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return result{}
	case errors.Is(err, syscall.ELOOP):
		return invalid("the result file is a symbolic link")
	case err != nil:
		return invalid("the result file cannot be read: %v", err)
	}
	defer file.Close() //nolint:errcheck // read only
	info, err := file.Stat()
	if err != nil {
		return invalid("the result file cannot be read: %v", err)
	}
	if !info.Mode().IsRegular() {
		return invalid("the result file is no regular file but %s", info.Mode())
	}
	content, err := io.ReadAll(io.LimitReader(file, fencing.MaxResultBytes+1))
	switch {
	case err != nil:
		return invalid("the result file cannot be read: %v", err)
	case len(content) > fencing.MaxResultBytes:
		size := max(int(info.Size()), len(content))
		return result{Written: true, Reason: fencing.ReasonResultTooLarge, Message: fencing.ResultTooLarge(size, 0)}
	case !utf8.Valid(content):
		return invalid("the result is not UTF-8 text")
	}
	return result{Written: true, Content: string(content)}
}

// readNote reads what the command wrote as its own termination message. It is a courtesy: anything unusual is no note.
func readNote(path string) string {
	file, err := openOwn(path)
	if err != nil {
		return ""
	}
	defer file.Close() //nolint:errcheck // read only
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	content, err := io.ReadAll(io.LimitReader(file, 2*fencing.MaxMessageBytes))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(content), ""))
}

func openOwn(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
}

// writeReport replaces the termination message. It writes in place, because the kubelet has mounted that very file.
func writeReport(path string, report fencing.Report) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(report.Encode())
	return errors.Join(err, file.Close())
}

// oomKills is how many processes of the container the kernel has killed for memory, in cgroup v2 or v1. Best effort: it is
// 0 where neither can be read.
func oomKills(root string) int {
	for _, name := range []string{"memory.events", "memory/memory.oom_control"} {
		content, err := readBounded(filepath.Join(root, name), 4<<10)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			if value, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(value))
				return n
			}
		}
	}
	return 0
}
