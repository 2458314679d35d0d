// Package api asks a real API server: what it refuses, and what the operator's writes do there. No kubelet runs; tests play
// the agent where one is needed.
package api

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
	"github.com/leasehold-io/leasehold/test/cluster"
)

const patience = time.Minute // on a loaded machine; nothing here waits for it otherwise

var (
	config     *rest.Config
	kubeConfig []byte // the same, for kubectl
	admin      client.Client
	// node is where the agents that tests play claim to run.
	node  = "node-1"
	epoch = types.NamespacedName{Namespace: "leasehold-system", Name: "leasehold-epoch"}
)

func TestMain(m *testing.M) {
	// Tests wait for the API server and for time to pass, not for processors. The command line may say otherwise.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(0), textlogger.Output(io.MultiWriter(os.Stderr, &operatorLog))))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Println("KUBEBUILDER_ASSETS is not set: run these tests with `make test-api`")
		os.Exit(1)
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	// The API server and etcd inherit it. They have more memory than time here: a fifth of their time went to the collector.
	if err := os.Setenv("GOGC", "400"); err != nil {
		fmt.Println(err)
		return 1
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		CRDInstallOptions:     envtest.CRDInstallOptions{MaxTime: time.Minute}, // ten seconds are too few for a busy machine
	}
	env.ControlPlane.GetAPIServer().Configure().Disable("disable-admission-plugins") // with ServiceAccount, as in every cluster
	defer func() { _ = env.Stop() }()                                                // what has started by then, too
	var err error
	if config, err = env.Start(); err != nil {
		fmt.Println("start the API server:", err)
		return 1
	}
	kubeConfig = env.KubeConfig
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := startOperator(ctx); err != nil {
		fmt.Println("start the operator:", err)
		return 1
	}
	return m.Run()
}

// keptPods is how many finished Pods the operator of this process keeps in a namespace: more than most tests have.
const keptPods = 3

// revisionPatience is how long the operator of this process keeps what a queue gave and no task needs: longer than any pass takes here.
const revisionPatience = 2 * time.Second

// handDriven is the label of tasks that the operator of this process leaves to their test.
const handDriven = "hand-driven"

// startOperator runs the operator in this process, as cmd/manager does.
func startOperator(ctx context.Context) error {
	config.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	if admin, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: epoch.Namespace}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: epoch.Namespace, Name: epoch.Name}, Data: map[string]string{controller.EpochKey: "1"}},
	} {
		if err := admin.Create(ctx, o); err != nil {
			return err
		}
	}
	if err := installPolicies(ctx); err != nil {
		return err
	}
	seen := controller.CacheOptions()
	isOthers, err := labels.Parse("!" + handDriven)
	if err != nil {
		return err
	}
	for kind, options := range seen.ByObject {
		if _, isTask := kind.(*v1alpha1.LeasedTask); isTask {
			options.Label = isOthers
		}
		if options.Field == nil {
			options.Field = fields.OneTermNotEqualSelector("metadata.namespace", modelNamespace)
		}
		seen.ByObject[kind] = options
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Cache: seen, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	agent := plan.AgentImage{Name: "agent:test", PullPolicy: corev1.PullIfNotPresent}
	options := controller.Options{Epoch: epoch, Agent: agent, Concurrency: 8, KeepPods: keptPods, KeepPause: time.Second,
		QueuePause: 500 * time.Millisecond, RevisionPatience: revisionPatience}
	if _, err := controller.Add(ctx, mgr, options); err != nil {
		return err
	}
	go func() {
		if err := mgr.Start(ctx); err != nil {
			fmt.Println("operator:", err)
			os.Exit(1)
		}
	}()
	return nil
}

// installPolicies installs the admission policies that the operator wants to see, and the role that they guard.
func installPolicies(ctx context.Context) error {
	for _, file := range []string{"admission/mailbox.yaml", "admission/lease-create.yaml", "admission/task-size.yaml", "admission/replay.yaml", "admission/epoch.yaml", "admission/bindings.yaml", "rbac/worker.yaml", "rbac/users.yaml"} {
		f, err := os.Open(filepath.Join("..", "..", "config", filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		objects := yaml.NewYAMLOrJSONDecoder(f, 4096)
		for {
			o := &unstructured.Unstructured{}
			if err := objects.Decode(o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := admin.Create(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// scene is one test's namespace, with the poll helpers of package cluster.
type scene struct {
	*testing.T
	*cluster.Cluster
	namespace string
}

// sideBySide is a scene that may be played while others are: the test changes nothing that they share, and counts nothing of what
// they do. Most of a test's time is waiting.
func sideBySide(t *testing.T, labels map[string]string) *scene {
	t.Helper()
	t.Parallel()
	return set(t, labels)
}

// set is a scene for a test that is alone.
func set(t *testing.T, labels map[string]string) *scene {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scene-", Labels: labels}}
	s := &scene{T: t, Cluster: cluster.For(admin), namespace: ""}
	s.ok(admin.Create(t.Context(), ns))
	s.namespace = ns.Name
	t.Cleanup(func() { // some tests count passes over all tasks, and a task that is left asks for one when its Pod has settled
		_ = admin.DeleteAllOf(context.Background(), &v1alpha1.LeasedTask{}, client.InNamespace(ns.Name))
	})
	// What the controller-manager would make.
	s.ok(admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}))
	return s
}

func (s *scene) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) must(holds bool, format string, args ...any) {
	s.Helper()
	if !holds {
		s.Fatalf(format, args...)
	}
}

func (s *scene) start(name string, change ...func(*v1alpha1.LeasedTask)) *v1alpha1.LeasedTask {
	s.Helper()
	task := cluster.Task(s.namespace, name, "true")
	for _, c := range change {
		c(task)
	}
	s.ok(admin.Create(s.Context(), task))
	return task
}

func (s *scene) until(task *v1alpha1.LeasedTask, what string, is func(*v1alpha1.LeasedTask) bool) {
	s.Helper()
	s.ok(s.Until(s.Context(), task, patience, what, is))
}

func in(phase v1alpha1.Phase, attempt int32) func(*v1alpha1.LeasedTask) bool {
	return func(task *v1alpha1.LeasedTask) bool {
		return task.Status.Phase == phase && task.Status.Attempt == attempt
	}
}

// untilGranted waits for the term of an attempt.
func (s *scene) untilGranted(task *v1alpha1.LeasedTask, attempt int32) {
	s.Helper()
	s.until(task, fmt.Sprintf("granted for attempt %d", attempt), in(v1alpha1.PhaseClaimed, attempt))
}

// untilPod waits for the Pod of the current attempt.
func (s *scene) untilPod(task *v1alpha1.LeasedTask) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{}
	s.ok(s.Poll(s.Context(), patience, func() error {
		return admin.Get(s.Context(), types.NamespacedName{Namespace: s.namespace, Name: task.Status.Holder.PodName}, pod)
	}))
	return pod
}

// boundToken is a token as the kubelet projects it into the Pod.
func (s *scene) boundToken(pod *corev1.Pod) string {
	s.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "default"}}
	s.ok(admin.SubResource("token").Create(s.Context(), account, request))
	return request.Status.Token
}

// agent plays the agent of the task's current attempt.
type agent struct {
	*scene
	task  *v1alpha1.LeasedTask
	claim fencing.Claim
}

func (s *scene) agentOf(task *v1alpha1.LeasedTask) *agent {
	s.Helper()
	return &agent{scene: s, task: task, claim: fencing.Claim{Nonce: "nonce", Node: node, PodUID: string(s.untilPod(task).UID)}}
}

// claimed starts a task and claims its first term.
func (s *scene) claimed(name string, change ...func(*v1alpha1.LeasedTask)) (*v1alpha1.LeasedTask, *agent) {
	s.Helper()
	task := s.start(name, change...)
	s.untilGranted(task, 1)
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	return task, a
}

func (a *agent) patch(patch []byte) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: mailbox.Name(string(a.task.UID))}}
	return admin.Patch(a.Context(), lease, client.RawPatch(types.JSONPatchType, patch))
}

func (a *agent) claimTerm() error {
	return a.patch(fencing.ClaimPatch(a.task.Status.Holder.PodName, a.claim, time.Now()))
}

func (a *agent) renew() error {
	return a.patch(fencing.RenewPatch(a.task.Status.Holder.PodName, a.claim, time.Now()))
}

func (a *agent) submit(sub fencing.Submission) error {
	sub.Token = fencing.Token(a.task.Status.FencingToken)
	raw, err := sub.Encode()
	if err != nil {
		return err
	}
	return a.patch(fencing.SubmitPatch(a.task.Status.Holder.PodName, a.claim, raw))
}
