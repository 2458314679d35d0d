package controller

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// EpochKey is the key in the epoch ConfigMap.
const EpochKey = "epoch"

// EpochReader reads the epoch for a grant. The epoch is not below the given one, that of a token already granted; a
// missing, unreadable or lower epoch is a problem that a person must solve.
type EpochReader interface {
	Read(ctx context.Context, atLeast int64) (int64, error)
}

// ConfigMapEpoch reads the epoch from one ConfigMap, live each time: a stale epoch would grant tokens of the past.
type ConfigMapEpoch struct {
	Live client.Reader
	Name types.NamespacedName

	highest atomic.Int64 // of those this process has read
}

// Read reads the ConfigMap.
func (e *ConfigMapEpoch) Read(ctx context.Context, atLeast int64) (int64, error) {
	cm := &corev1.ConfigMap{}
	if err := e.Live.Get(ctx, e.Name, cm); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, problemError(fmt.Sprintf("ConfigMap %s is missing: without the epoch there are no grants", e.Name))
		}
		return 0, fmt.Errorf("get epoch: %w", err)
	}
	epoch, err := strconv.ParseInt(cm.Data[EpochKey], 10, 64)
	if err != nil || epoch < 1 || epoch > fencing.MaxEpoch {
		return 0, problemError(fmt.Sprintf("ConfigMap %s: %s must be a number from 1 to %d", e.Name, EpochKey, fencing.MaxEpoch))
	}
	for {
		highest := e.highest.Load()
		if floor := max(highest, atLeast); epoch < floor {
			return 0, problemError(fmt.Sprintf("ConfigMap %s: epoch %d is below %d, which was in use: raise it", e.Name, epoch, floor))
		}
		if epoch == highest || e.highest.CompareAndSwap(highest, epoch) {
			return epoch, nil
		}
	}
}
