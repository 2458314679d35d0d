package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/faults/harness"
)

// fault is a way to hurt.
type fault struct {
	kind   string
	weight int
	// shortest and longest: how long it lasts; zero: it is done at once.
	shortest, longest time.Duration
	pick              func(*storm, *rand.Rand) target
	begin             func(*storm, context.Context, target) error
	end               func(*storm, context.Context, target) error // puts things back; it is repeated until it succeeds
}

// target is whom a fault hits. No two faults hold one place at once.
type target struct {
	place string // of what there is one: a Pod, a node, the API server, the operator
	pod   string // the Pod of a worker or of an operator
	lease string
}

func (t target) String() string {
	if t.pod != "" {
		return t.pod
	}
	return t.place
}

// catalogue holds every fault. Leases last 10 s; partitions heal within 40 s and the API server is gone for 35 s at most.
var catalogue = []fault{
	{kind: "Pod deleted", weight: 8, pick: aWorker, begin: (*storm).deleteGracefully},
	{kind: "Pod deleted by force", weight: 6, pick: aWorker, begin: (*storm).deleteByForce},
	{kind: "Pod evicted", weight: 6, pick: aWorker, begin: (*storm).evict},
	{kind: "agent killed", weight: 10, pick: aWorker, begin: func(s *storm, ctx context.Context, t target) error { return s.KillAgent(ctx, t.pod) }},
	{kind: "command killed", weight: 6, pick: aWorker, begin: func(s *storm, ctx context.Context, t target) error { return s.KillCommand(ctx, t.pod) }},
	{kind: "worker frozen", weight: 12, shortest: 8 * time.Second, longest: 28 * time.Second, pick: aWorker,
		begin: func(s *storm, ctx context.Context, t target) error {
			return s.local(ctx, "freeze", t.pod, "-n", s.Namespace)
		},
		end: func(s *storm, ctx context.Context, t target) error { return s.thaw(ctx, t.pod, s.Namespace) }},
	{kind: "Lease deleted", weight: 6, pick: aWorker, begin: (*storm).deleteLease},
	{kind: "node partitioned", weight: 6, shortest: 3 * time.Second, longest: 35 * time.Second, pick: aNode,
		begin: func(s *storm, ctx context.Context, t target) error { return s.local(ctx, "partition", t.place) },
		end:   func(s *storm, ctx context.Context, t target) error { return s.local(ctx, "heal", t.place) }},
	{kind: "kubelet stopped", weight: 4, shortest: 3 * time.Second, longest: 35 * time.Second, pick: aNode,
		begin: func(s *storm, ctx context.Context, t target) error { return s.local(ctx, "stop-kubelet", t.place) },
		end:   func(s *storm, ctx context.Context, t target) error { return s.local(ctx, "start-kubelet", t.place) }},
	{kind: "API server stopped", weight: 3, shortest: 5 * time.Second, longest: 30 * time.Second, pick: theOne("api"),
		begin: func(s *storm, ctx context.Context, _ target) error { return s.StopAPI(ctx) },
		end:   func(s *storm, ctx context.Context, _ target) error { return s.StartAPI(ctx) }},
	{kind: "operator's leader killed", weight: 3, pick: theLeader,
		begin: func(s *storm, ctx context.Context, t target) error { return s.KillAll(ctx, system, t.pod) }},
	{kind: "operator's leader frozen", weight: 3, shortest: 10 * time.Second, longest: 30 * time.Second, pick: theLeader,
		begin: func(s *storm, ctx context.Context, t target) error {
			return s.local(ctx, "freeze", t.pod, "-n", system)
		},
		end: func(s *storm, ctx context.Context, t target) error { return s.thaw(ctx, t.pod, system) }},
	{kind: "both operators killed", weight: 2, pick: theOne("operator"), begin: (*storm).deleteOperators},
}

const (
	system      = "leasehold-system"
	leaderLease = "leasehold-manager"
)

// quick bounds a request that a fault makes: it is not tried again, and hits nothing while the API server is down.
const quick = 5 * time.Second

// aWorker is a Pod whose worker holds its term, as far as is known, and beats. The status may be old: the API server or the operator
// may be down.
func aWorker(s *storm, random *rand.Rand) target {
	running := slices.DeleteFunc(s.running(), func(task *v1alpha1.LeasedTask) bool { return !s.IsBeating(task.Status.Holder.PodName) })
	if len(running) == 0 {
		return target{}
	}
	task := running[random.IntN(len(running))]
	pod := task.Status.Holder.PodName
	return target{place: "Pod " + pod, pod: pod, lease: task.Status.LeaseName}
}

func aNode(_ *storm, random *rand.Rand) target {
	return target{place: harness.Nodes[random.IntN(len(harness.Nodes))]}
}

func theOne(place string) func(*storm, *rand.Rand) target {
	return func(*storm, *rand.Rand) target { return target{place: place} }
}

func theLeader(s *storm, _ *rand.Rand) target {
	ctx, cancel := context.WithTimeout(context.Background(), quick)
	defer cancel()
	lease := &coordinationv1.Lease{}
	if err := s.Get(ctx, types.NamespacedName{Namespace: system, Name: leaderLease}, lease); err != nil || lease.Spec.HolderIdentity == nil {
		return target{}
	}
	pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	return target{place: "operator", pod: pod}
}

func (s *storm) local(ctx context.Context, args ...string) error {
	_, err := s.Localcluster(ctx, args...)
	return err
}

// thaw lets a Pod's processes go on. They may have been killed meanwhile; then there is nothing to do.
func (s *storm) thaw(ctx context.Context, pod, namespace string) error {
	return s.local(ctx, "thaw", pod, "-n", namespace)
}

func (s *storm) deleteGracefully(ctx context.Context, t target) error { return s.deletePod(ctx, t.pod) }

func (s *storm) deleteByForce(ctx context.Context, t target) error {
	return s.deletePod(ctx, t.pod, client.GracePeriodSeconds(0))
}

func (s *storm) evict(ctx context.Context, t target) error {
	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: t.pod}}
	return s.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
}

func (s *storm) deleteLease(ctx context.Context, t target) error {
	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	return s.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: t.lease}})
}

// deleteOperators kills every replica's processes; its Deployment makes new Pods.
func (s *storm) deleteOperators(ctx context.Context, _ target) error {
	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()
	pods := &corev1.PodList{}
	if err := s.List(ctx, pods, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/name": "leasehold"}); err != nil {
		return err
	}
	var errs []error
	for i := range pods.Items {
		errs = append(errs, s.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)))
	}
	if len(errs) == 0 {
		return fmt.Errorf("no operator is there")
	}
	return errors.Join(errs...)
}
