package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Install copies the running binary to dest, which appears complete and executable for everybody, or not at all.
func Install(dest string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the running binary: %w", err)
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // read only
	to, err := os.CreateTemp(filepath.Dir(dest), ".agent-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Chmod(0o555), to.Close()); err == nil {
		err = os.Rename(to.Name(), dest)
	}
	if err != nil {
		return errors.Join(err, os.Remove(to.Name()))
	}
	return nil
}
