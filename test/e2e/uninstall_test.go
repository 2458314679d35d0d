package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// soon is how long any step of an uninstallation may take, a namespace's end included.
const soon = time.Minute

// uninstalling is what docs/install.md says about it: the lines of its shell blocks.
type uninstalling struct {
	order, rest, rescue []string
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

func (s *story) documentedUninstalling() uninstalling {
	s.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "install.md"))
	s.ok(err)
	_, section, _ := strings.Cut(string(page), "\n## Uninstalling\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var blocks [][]string
	for _, block := range shellBlock.FindAllStringSubmatch(section, -1) {
		blocks = append(blocks, strings.Split(strings.TrimSpace(block[1]), "\n"))
	}
	s.must(len(blocks) == 3 && len(blocks[2]) == 1, "docs/install.md has other commands than this test knows: %q", blocks)
	return uninstalling{blocks[0], blocks[1], blocks[2]}
}

// follow types line after line, and none of them hangs.
func (s *story) follow(lines []string) {
	s.Helper()
	for _, line := range lines {
		ctx, cancel := context.WithTimeout(s.ctx, soon)
		printed, err := s.Shell(ctx, line)
		cancel()
		s.ok(err)
		s.Logf("$ %s\n%s", line, printed)
	}
}

// mustBeLeft waits until nothing else of ours is in the cluster: what other objects own goes a little later than they.
func (s *story) mustBeLeft(want ...string) {
	s.Helper()
	s.ok(s.Poll(s.ctx, soon, func() error {
		got, err := s.Ours(s.ctx)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("what is left of Leasehold (-want +got):\n%s", diff)
		}
		return nil
	}))
}

// installedAgainInTheEnd gives the stories after this one the cluster that they expect, however it ends.
func (s *story) installedAgainInTheEnd() {
	s.Cleanup(func() {
		s.ctx = context.Background()
		s.ok(s.Deploy(s.ctx))
		s.leader()
	})
}

func TestCase37TheDocumentedOrderLeavesWhatThePageSays(t *testing.T) {
	s := tell(t, alone)
	page := s.documentedUninstalling()
	s.kubectl("patch", "-n", system, "configmap", "leasehold-epoch", "--type=merge", "--patch", `{"data": {"epoch": "3"}}`)
	s.installedAgainInTheEnd()
	queue := &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "mail"}}
	queue.Spec.Template = cluster.Task("", "", "true").Spec.Template
	s.ok(s.Create(s.ctx, queue))
	s.untilFinished(s.start("queued", "", func(task *v1alpha1.LeasedTask) { task.Spec = v1alpha1.LeasedTaskSpec{QueueName: "mail"} }))
	keyed := s.start("keyed", echo, func(task *v1alpha1.LeasedTask) { task.Spec.IdempotencyKey = "order-17" })
	dead := s.deadLetterOf(s.start("dead", "exit 1", func(task *v1alpha1.LeasedTask) { task.Spec.Retry.MaxAttempts = 1 }))
	s.untilFinished(keyed)
	s.start("waits", "true", on("no-such-node"))
	runs := s.start("runs", "sleep 600")
	s.untilRunning(runs, 1)
	s.must(fencing.Token(runs.Status.FencingToken).Epoch() == 3, "token %d is not of the epoch", runs.Status.FencingToken)
	finalizers := s.kubectl("get", "lt,dl,pods,leases", "--all-namespaces", "-o", "jsonpath={.items[*].metadata.finalizers}")
	s.must(finalizers == "", "finalizers: %s", finalizers)

	s.follow(page.order)
	s.mustBeLeft(
		"apiservices.apiregistration.k8s.io /v1alpha1.leasehold.io", // the API server's own account of them
		"configmaps "+system+"/leasehold-epoch",
		"customresourcedefinitions.apiextensions.k8s.io /deadletters.leasehold.io",
		"customresourcedefinitions.apiextensions.k8s.io /leasedtasks.leasehold.io",
		"customresourcedefinitions.apiextensions.k8s.io /taskqueues.leasehold.io",
		fmt.Sprintf("deadletters.leasehold.io %s/%s", dead.Namespace, dead.Name),
		"leases.coordination.k8s.io "+system+"/leasehold-manager",
		"namespaces /"+system,
		fmt.Sprintf("taskqueues.leasehold.io %s/%s", queue.Namespace, queue.Name),
	)

	s.ok(s.Deploy(s.ctx)) // and goes on where it was left
	again := s.start("again", echo)
	s.mustHaveRunOnce(again)
	s.must(again.Status.FencingToken > runs.Status.FencingToken, "token %d after %d", again.Status.FencingToken, runs.Status.FencingToken)
	replayed := s.replay(dead, 1, "")
	s.must(replayed.Status.Phase == v1alpha1.PhaseDeadLettered, "replay: %s", cluster.Describe(replayed))

	s.follow(page.order)
	s.follow(page.rest)
	s.mustBeLeft()
	s.mustEnd(s.namespace)

	s.ok(s.Deploy(s.ctx)) // and begins anew
	s.mustHaveRunOnce(tell(t, alone).start("anew", echo))
}

// TestCase37WithoutTheOperatorNothingHangs: there is nobody who could let go of anything, and a running worker goes with its task, its
// namespace, or its kind.
func TestCase37WithoutTheOperatorNothingHangs(t *testing.T) {
	s, other := tell(t, alone), tell(t, alone)
	page := s.documentedUninstalling()
	s.installedAgainInTheEnd()
	one, two, three := s.start("one", "sleep 600"), s.start("two", "sleep 600"), other.start("three", "sleep 600")
	for _, task := range []*v1alpha1.LeasedTask{one, two, three} {
		s.untilRunning(task, 1)
	}
	s.scaleOperator(0)

	s.follow([]string{"kubectl delete leasedtask one --namespace " + s.namespace})
	s.mustHaveNoPods(one)

	huge := cluster.Task(s.namespace, "huge", "true")
	for i := range 600 {
		huge.Spec.Template.Spec.Containers[0].Env = append(huge.Spec.Template.Spec.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: strings.Repeat("x", 1000)})
	}
	err := s.Create(s.ctx, huge.DeepCopy(), client.DryRunAll)
	s.must(apierrors.IsRequestEntityTooLargeError(err), "no policy is in the way: %v", err)
	s.follow(page.rescue)
	s.ok(s.Poll(s.ctx, soon, func() error { return s.Create(s.ctx, huge.DeepCopy(), client.DryRunAll) }))
	ours, err := s.Ours(s.ctx)
	s.ok(err)
	for _, object := range ours {
		s.must(!strings.HasPrefix(object, "validatingadmissionpolicybindings."), "the rescue leaves %s", object)
	}

	s.mustEnd(s.namespace)
	s.mustHaveNoPods(two)
	s.follow([]string{"kubectl delete crd leasedtasks.leasehold.io"})
	s.mustHaveNoPods(three)
}

func (s *story) mustHaveNoPods(task *v1alpha1.LeasedTask) {
	s.Helper()
	s.ok(s.Poll(s.ctx, soon, func() error {
		pods, err := s.Pods(s.ctx, task)
		if len(pods) > 0 {
			err = fmt.Errorf("pod %s is still there: %s", pods[0].Name, pods[0].Status.Phase)
		}
		return err
	}))
}

// mustEnd deletes a namespace, and it ends.
func (s *story) mustEnd(namespace string) {
	s.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	s.ok(s.Delete(s.ctx, ns))
	s.ok(s.Poll(s.ctx, soon, func() error {
		err := s.Get(s.ctx, key("", namespace), ns)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("namespace %s is still there: %+v", namespace, ns.Status))
	}))
}
