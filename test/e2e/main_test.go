// Package e2e tells what must hold on a real cluster: real API server, kubelets, containers, signals. Each test is one
// sentence. They share one local cluster, started here; LEASEHOLD_KEEP=1 leaves it up.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

const (
	node1 = "lh-n1"
	node2 = "lh-n2"
	// lease is the duration of the leases that cluster.Task gives.
	lease = 10 * time.Second
	// patience bounds waits that depend on a loaded machine only.
	patience = 3 * time.Minute
)

var shared *cluster.Cluster

func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		fmt.Println("SKIP: the end-to-end tests start kubelets and network namespaces, which needs root")
		return
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	ctx := context.Background()
	var err error
	shared, err = cluster.Start(ctx, cluster.Local, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the cluster:", err)
		return 1
	}
	code := m.Run()
	if err := stopDatabase(); err != nil {
		fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
		code = 1
	}
	if os.Getenv("LEASEHOLD_KEEP") != "" {
		return code
	}
	if err := shared.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "stop the cluster:", err)
		return 1
	}
	if left := remains(); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "the cluster is stopped, and has left", left)
		return 1
	}
	return code
}

// remains is what a cluster that was stopped has left of its places.
func remains() (left []string) {
	for _, path := range []string{"/var/lib/leasehold-localcluster", "/run/leasehold-localcluster", "/sys/class/net/lhbr0", "/run/netns/" + node1, "/run/netns/" + node2} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			left = append(left, path)
		}
	}
	return left
}

// story is one test's view of the cluster: a namespace of its own that says "restricted", and failures that stop the test.
type story struct {
	*testing.T
	*cluster.Cluster
	ctx       context.Context
	namespace string
}

// tell begins a story. Those that hurt only their own Pods run side by side.
func tell(t *testing.T, isAlone bool) *story {
	t.Helper()
	if !isAlone {
		t.Parallel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	s := &story{T: t, Cluster: shared, ctx: ctx}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "story-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	s.ok(s.Create(ctx, ns))
	s.namespace = ns.Name
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		_ = s.Delete(context.Background(), ns)
	})
	s.ok(s.Poll(ctx, patience, func() error { // the admission plugin wants the account to exist
		return s.Get(ctx, key(ns.Name, "default"), &corev1.ServiceAccount{})
	}))
	return s
}

// contextOf is for what several stories share.
func contextOf(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}

const (
	alone      = true
	sideBySide = false
)

func (s *story) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// must stops the test unless the condition holds.
func (s *story) must(holds bool, format string, args ...any) {
	s.Helper()
	if !holds {
		s.Fatalf(format, args...)
	}
}

// start creates a task that runs the script.
func (s *story) start(name, script string, change ...func(*v1alpha1.LeasedTask)) *v1alpha1.LeasedTask {
	s.Helper()
	task := cluster.Task(s.namespace, name, script)
	for _, c := range change {
		c(task)
	}
	s.ok(s.Create(s.ctx, task))
	return task
}

func (s *story) untilFinished(task *v1alpha1.LeasedTask) {
	s.Helper()
	s.ok(s.Until(s.ctx, task, patience, "finished", cluster.IsFinished))
}

func (s *story) untilRunning(task *v1alpha1.LeasedTask, attempt int32) {
	s.Helper()
	s.ok(s.Until(s.ctx, task, patience, fmt.Sprintf("running attempt %d", attempt), cluster.IsRunning(attempt)))
}

// holder is the Pod of the current attempt.
func (s *story) holder(task *v1alpha1.LeasedTask) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{}
	s.ok(s.Get(s.ctx, key(task.Namespace, task.Status.Holder.PodName), pod))
	return pod
}

func (s *story) local(args ...string) string {
	s.Helper()
	printed, err := s.Localcluster(s.ctx, args...)
	s.ok(err)
	return printed
}

func (s *story) kubectl(args ...string) string {
	s.Helper()
	printed, err := s.Kubectl(s.ctx, args...)
	s.ok(err)
	return printed
}

// dump prints what a person would look at first.
func (s *story) dump() {
	for _, args := range [][]string{
		{"describe", "lt,dl", "-n", s.namespace},
		{"get", "pods,leases", "-n", s.namespace, "-o", "wide"},
		{"logs", "-n", "leasehold-system", "-l", "app.kubernetes.io/name=leasehold", "--tail=60", "--prefix"},
	} {
		if printed, err := s.Kubectl(context.Background(), args...); err == nil {
			s.Log("$ kubectl " + strings.Join(args, " ") + "\n" + printed)
		}
	}
}
