package debian

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// Lock keeps other test binaries of this machine from doing the same at the same time.
func Lock(name string) (unlock func(), err error) {
	dir, err := CacheDir()
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// CacheDir is outside the checkout, shared by clones.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "leasehold", "teststores")
	return dir, os.MkdirAll(dir, 0o700)
}
