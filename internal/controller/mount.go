package controller

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// +kubebuilder:rbac:groups="",resources=events,verbs=list

const (
	// mountKept is how long an answer serves: a little less than the pause after which a Pod without one is asked about again.
	mountKept = 8 * time.Second
	// mountForgotten is when an answer that nobody has renewed is dropped.
	mountForgotten = 2 * time.Minute
	// mountPage and mountPages bound what is read of a namespace's events: the kubelet makes one for each Pod, volume and message. A
	// large page spares the API server reading in small steps what it then leaves out; who is not among them starts without words.
	mountPage, mountPages = 500, 10
)

// mountLooks is what the kubelets say is in the way of volumes, by namespace. The API server has no index of events: to find those of
// one Pod it reads all of the namespace from etcd. So one look serves all Pods of a namespace, and there is one at a time.
type mountLooks struct {
	mu sync.Mutex
	of map[string]mountLook
}

type mountLook struct {
	at         time.Time // of the answer
	causes     plan.MountCauses
	isUnderWay bool
}

// begin is what is known of a namespace, and whether it is up to the caller to look, who then has to say end.
func (m *mountLooks) begin(namespace string, now time.Time) (causes plan.MountCauses, isDue bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.of, func(_ string, l mountLook) bool { return !l.isUnderWay && now.Sub(l.at) >= mountForgotten })
	last, isKnown := m.of[namespace]
	if isKnown && (last.isUnderWay || now.Sub(last.at) < mountKept) {
		return last.causes, false
	}
	if m.of == nil {
		m.of = map[string]mountLook{}
	}
	last.isUnderWay = true
	m.of[namespace] = last
	return last.causes, true
}

func (m *mountLooks) end(namespace string, causes plan.MountCauses, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[namespace] = mountLook{at: now, causes: causes}
}

// mountTrouble is what the kubelet says is in the way of a Pod's volumes; empty: nothing, or nobody can tell. The Pod's own status does
// not say it. It waits for nobody else's look: what was known before serves meanwhile, and after a look that failed.
func (r *Reconciler) mountTrouble(ctx context.Context, namespace, podUID string) string {
	causes, isDue := r.mounts.begin(namespace, r.Clock.Now())
	if isDue {
		if found, err := r.mountCauses(ctx, namespace); err != nil {
			log.FromContext(ctx).Error(err, "Could not read the events of Pods that wait for their volumes", "namespace", namespace)
		} else {
			causes = found
		}
		r.mounts.end(namespace, causes, r.Clock.Now())
	}
	return causes.Of(podUID)
}

func (r *Reconciler) mountCauses(ctx context.Context, namespace string) (plan.MountCauses, error) {
	causes, next := plan.MountCauses{}, ""
	for range mountPages {
		events := &corev1.EventList{}
		err := r.Live.List(ctx, events, client.InNamespace(namespace), client.MatchingFields{"reason": "FailedMount"}, client.Limit(mountPage), client.Continue(next))
		if err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		for i := range events.Items {
			causes.Add(&events.Items[i])
		}
		if next = events.Continue; next == "" {
			break
		}
	}
	return causes, nil
}
