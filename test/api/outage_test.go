package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/bench/outage"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// TestScenario4RetryStorm: workers that are played call a real gateway, which fails all of them at the same moment. No Pod is slow to start
// here, so the starts show the jitter of the pauses, and that there is none.
func TestScenario4RetryStorm(t *testing.T) {
	tests := map[string]struct {
		jitter v1alpha1.Jitter
		wrong  []string // what of the scenario does not hold
	}{
		"of the default jitter": {},
		"without jitter":        {jitter: v1alpha1.JitterNone, wrong: []string{"retries started in the first half of the bound", "distance from full jitter is 1.00"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := sideBySide(t, nil)
			load := outage.Load{Namespace: s.namespace, Listen: "127.0.0.1:0", Tasks: 60, Length: 30 * time.Second, Bound: 15 * time.Second,
				Open: 5 * time.Second, Jitter: test.jitter}
			s.callGateways()
			r, err := outage.Measure(t.Context(), &cluster.Cluster{Client: admin, Config: config}, load, 3*patience)
			s.ok(err)
			s.Logf("\n%s", r.Table())
			wrong := strings.Join(r.Judge(), "\n")
			for _, want := range test.wrong {
				s.must(strings.Contains(wrong, want), "it does not say %q:\n%s", want, wrong)
			}
			s.must(len(test.wrong) > 0 || wrong == "", "wrong:\n%s", wrong)
		})
	}
}

// callGateways plays the workers of the namespace: each makes its one call, and has failed unless the answer is 200.
func (s *scene) callGateways() {
	ctx, stop := context.WithCancel(s.Context())
	var crew sync.WaitGroup
	s.Cleanup(func() { stop(); crew.Wait() })
	crew.Go(func() {
		begun := map[string]bool{} // by Pod
		for ctx.Err() == nil {
			pods, tasks := &corev1.PodList{}, &v1alpha1.LeasedTaskList{}
			for _, list := range []client.ObjectList{pods, tasks} { // the tasks last, so that they know of the Pods
				if err := admin.List(ctx, list, client.InNamespace(s.namespace)); err != nil && ctx.Err() == nil {
					panic(err)
				}
			}
			of := map[string]*v1alpha1.LeasedTask{}
			for i := range tasks.Items {
				of[tasks.Items[i].Status.Holder.PodName] = &tasks.Items[i]
			}
			for i := range pods.Items {
				if pod := &pods.Items[i]; of[pod.Name] != nil && !begun[pod.Name] {
					begun[pod.Name] = true
					crew.Go(func() { s.callGateway(ctx, of[pod.Name], pod) })
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

func (s *scene) callGateway(ctx context.Context, task *v1alpha1.LeasedTask, pod *corev1.Pod) {
	a := &agent{scene: s, task: task, claim: fencing.Claim{Nonce: "nonce", Node: node, PodUID: string(pod.UID)}}
	if a.claimTerm() != nil {
		return
	}
	url := fmt.Sprintf("%s/?task=%s&attempt=%d", task.Spec.Template.Spec.Containers[0].Env[0].Value, task.Name, task.Status.Attempt)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	s.ok(err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return // the test is over
	}
	_ = response.Body.Close()
	end := fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted}
	if response.StatusCode != http.StatusOK {
		end = fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1)), Message: "server returned error: " + response.Status}
	}
	if err := a.submit(end); err != nil && ctx.Err() == nil {
		s.Errorf("task %s, attempt %d: %v", task.Name, task.Status.Attempt, err)
	}
}
