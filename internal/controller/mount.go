package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// +kubebuilder:rbac:groups="",resources=events,verbs=list

// maxMountEvents bounds what is read of a Pod's events: the kubelet makes one for each volume and message.
const maxMountEvents = 50

// mountTrouble is what the kubelet says is in the way of a Pod's volumes; empty: nothing, or nobody can tell. The Pod's own status does
// not say it.
func (r *Reconciler) mountTrouble(ctx context.Context, namespace, podUID string) string {
	events := &corev1.EventList{}
	err := r.Live.List(ctx, events, client.InNamespace(namespace), client.Limit(maxMountEvents),
		client.MatchingFields{"involvedObject.uid": podUID, "reason": "FailedMount"})
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not read the events of a Pod that waits for its volumes")
		return ""
	}
	return plan.MountCause(events.Items)
}
