package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// TokenAnnotation holds the mark of an object.
const TokenAnnotation = "fencing.leasehold.io/token"

const (
	// firstPause and maxPause bound the random pause after a lost race.
	firstPause = 5 * time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// Client is what is used of a typed client, clientset.CoreV1().ConfigMaps("shop") for example.
type Client[T metav1.Object] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

// Update changes an object if no higher token has written to it and nobody has written since it was read; otherwise it begins again, so
// change may be called several times. An error of change ends it with nothing written. The object must exist.
func Update[T metav1.Object](ctx context.Context, client Client[T], name string, token guard.Token, change func(T) error) (T, error) {
	return apply(ctx, client, name, token, nil, change)
}

// CreateOrUpdate is [Update] for an object that may not exist: then change is called with the one that empty makes, and it is created.
func CreateOrUpdate[T metav1.Object](ctx context.Context, client Client[T], name string, token guard.Token, empty func() T, change func(T) error) (T, error) {
	return apply(ctx, client, name, token, empty, change)
}

// Mark is the highest token that has written to the object, 0 if none has.
func Mark(object metav1.Object) (guard.Token, error) {
	text, found := object.GetAnnotations()[TokenAnnotation]
	if !found {
		return 0, nil
	}
	mark, err := guard.Parse(text)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %w", TokenAnnotation, err)
	}
	return mark, nil
}

func apply[T metav1.Object](ctx context.Context, client Client[T], name string, token guard.Token, empty func() T, change func(T) error) (T, error) {
	var none T
	if err := guard.Validate(name, token); err != nil {
		return none, err
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		object, exists, err := read(ctx, client, name, empty)
		if err != nil {
			return none, err
		}
		mark, err := Mark(object)
		if err != nil {
			return none, err
		}
		if token < mark {
			return none, &guard.StaleError{Resource: name, Token: token, Mark: mark}
		}
		version := object.GetResourceVersion()
		if err := change(object); err != nil {
			return none, err
		}
		object.SetName(name)
		object.SetResourceVersion(version) // the condition of the write, whatever change did
		setMark(object, token)
		var written T
		if exists {
			written, err = client.Update(ctx, object, metav1.UpdateOptions{})
		} else {
			written, err = client.Create(ctx, object, metav1.CreateOptions{})
		}
		if !overtaken(err, exists) {
			return written, lostAnswer(err, name, token)
		}
		select {
		case <-ctx.Done():
			return none, fmt.Errorf("other writers were faster until the end: %w", ctx.Err())
		case <-time.After(rand.N(pause)):
		}
	}
}

func read[T metav1.Object](ctx context.Context, client Client[T], name string, empty func() T) (object T, exists bool, err error) {
	object, err = client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && empty != nil {
		return empty(), false, nil
	}
	return object, true, err
}

func setMark(object metav1.Object, token guard.Token) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[TokenAnnotation] = token.String()
	object.SetAnnotations(annotations)
}

// overtaken says that somebody wrote, made or deleted the object after it was read.
func overtaken(err error, existed bool) bool {
	if existed {
		return apierrors.IsConflict(err)
	}
	return apierrors.IsAlreadyExists(err)
}

// lostAnswer tells a write that did not happen from one that may have. The API server's own timeouts and internal errors say neither.
func lostAnswer(err error, name string, token guard.Token) error {
	if err == nil {
		return nil
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code < 500 {
		return err
	}
	if dial, is := errors.AsType[*net.OpError](err); is && dial.Op == "dial" {
		return err
	}
	return &guard.UncertainError{Resource: name, Token: token, Err: err}
}
