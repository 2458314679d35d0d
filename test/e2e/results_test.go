package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// TestCase09AMissingSecretIsNamedAndItsBytesArriveOnceItIsThere: and nothing of it is anywhere else (Case 32).
func TestCase09AMissingSecretIsNamedAndItsBytesArriveOnceItIsThere(t *testing.T) {
	s := tell(t, sideBySide)
	canary := "canary-4b1d"
	body := []byte(canary + "$(HOME) \x00\xff\xfe\r\n")
	for b := range 256 {
		body = append(body, byte(b))
	}
	body = append(body, bytes.Repeat([]byte{0, 0x80, 0xff}, 100<<10)...) // 300 KiB: more than an inline payload may have
	began := time.Now()
	task := s.start("early", `sha256sum < "$LEASEHOLD_PAYLOAD_FILE" | cut -d' ' -f1 > "$LEASEHOLD_RESULT_FILE"`, func(task *v1alpha1.LeasedTask) {
		task.Spec.PayloadFrom.SecretKeyRef = v1alpha1.PayloadKeyReference{Name: "order", Key: "body.bin"}
		task.Spec.Verify = []v1alpha1.ResultCheck{{Expression: "raw.trim().matches('^[0-9a-f]{64}$')"}}
	})
	s.ok(s.Until(s.ctx, task, patience, "told what is missing", func(task *v1alpha1.LeasedTask) bool {
		w := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionWaiting)
		return w != nil && w.Reason == v1alpha1.WaitingVolumeMount && strings.Contains(w.Message, `secret "order" not found`)
	}))
	t.Logf("The cause is told after %s", time.Since(began).Round(time.Second))
	s.ok(s.Create(s.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "order"}, Data: map[string][]byte{"body.bin": body}}))
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && task.Status.Attempt == 1 && task.Status.Failures == 0 && task.Status.Disruptions == 0, "status %+v", task.Status)
	s.must(strings.TrimSpace(*task.Status.Result) == fmt.Sprintf("%x", sha256.Sum256(body)), "another payload arrived: %s", *task.Status.Result)

	encoded := base64.StdEncoding.EncodeToString([]byte(canary))[:12]
	for _, args := range [][]string{
		{"get", "lt,dl,pods,leases,events,configmaps", "-n", s.namespace, "-o", "yaml"},
		{"describe", "lt,pods", "-n", s.namespace},
		{"logs", "-n", "leasehold-system", "-l", "app.kubernetes.io/name=leasehold", "--tail=-1"},
	} {
		printed := s.kubectl(args...)
		s.must(len(printed) > 100 && !strings.Contains(printed, canary) && !strings.Contains(printed, encoded), "kubectl %s prints the payload, or nothing", strings.Join(args, " "))
	}
}

func TestCase06AResultThatDoesNotVerifyIsTriedAgain(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("half", `if [ "$LEASEHOLD_ATTEMPT" = 1 ]; then printf '{"rows": [1, 2'; else printf '{"rows": [1, 2, 3]}'; fi > "$LEASEHOLD_RESULT_FILE"`, func(task *v1alpha1.LeasedTask) {
		task.Spec.Verify = []v1alpha1.ResultCheck{{Expression: "result.rows.size() == 3", Message: "three rows are expected"}}
	})
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && task.Status.Attempt == 2 && task.Status.Failures == 1 && *task.Status.Result == `{"rows": [1, 2, 3]}`, "status %+v", task.Status)
	first := task.Status.History[0]
	s.must(first.Reason == plan.ReasonVerificationFailed && *first.ExitCode == 0, "entry %+v", first)
	described := s.kubectl("describe", "lt", "-n", s.namespace, "half")
	s.must(strings.Contains(described, "three rows are expected") && strings.Contains(described, "14 bytes"), "kubectl describe says\n%s", described)
}
