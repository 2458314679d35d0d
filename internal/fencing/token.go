package fencing

import (
	"fmt"
	"strconv"
)

// EpochShift is the number of low bits that hold the resourceVersion: token = epoch * 2^44 + resourceVersion.
// 2^44 writes are 557 years at 1,000 a second; 2^19 epochs fit above them in an int64.
const EpochShift = 44

const (
	maxRevision = int64(1)<<EpochShift - 1
	// MaxEpoch is the largest epoch.
	MaxEpoch = int64(1)<<(63-EpochShift) - 1
)

// Token is a fencing token: positive, and strictly rising over all grants of one cluster.
type Token int64

// NewToken makes the token of a grant from the resourceVersion that the API server returned for it and the epoch, a
// number that an administrator raises after restoring etcd or moving to another cluster, where resourceVersions start
// again from below. It fails on an epoch outside [1, MaxEpoch] and on a resourceVersion that is no plain number.
func NewToken(epoch int64, resourceVersion string) (Token, error) {
	if epoch < 1 || epoch > MaxEpoch {
		return 0, fmt.Errorf("epoch %d is outside [1, %d]", epoch, MaxEpoch)
	}
	rv, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion is no number: %w", err)
	}
	if rv < 1 || rv > maxRevision {
		return 0, fmt.Errorf("resourceVersion %d is outside [1, %d]", rv, maxRevision)
	}
	return Token(epoch<<EpochShift | rv), nil
}

// Epoch is the epoch that the token was granted in.
func (t Token) Epoch() int64 { return int64(t) >> EpochShift }
