package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/hack/image/archive"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
	"github.com/leasehold-io/leasehold/test/faults/postgres"
	"github.com/leasehold-io/leasehold/test/faults/store"
)

const (
	aggregateImage = "leasehold/aggregate:dev"
)

var aggregateBuilt sync.Mutex

// buildAggregate puts test/faults/aggregate on the nodes. The second time there is nothing left to do that takes time.
func (s *story) buildAggregate() {
	s.Helper()
	aggregateBuilt.Lock()
	defer aggregateBuilt.Unlock()
	dir := s.TempDir()
	binary := filepath.Join(dir, "aggregate")
	built, err := exec.CommandContext(s.ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "../faults/aggregate").CombinedOutput()
	s.must(err == nil, "build: %v: %s", err, built)
	content, err := os.ReadFile(binary)
	s.ok(err)
	image := filepath.Join(dir, "aggregate.tar")
	s.ok(archive.Write(image, archive.Spec{Tag: aggregateImage, Entries: []archive.Entry{archive.File("/aggregate", 0o755, content)},
		Entrypoint: []string{"/aggregate"}, User: "1000:1000"}))
	s.local("load", image)
}

// database starts PostgreSQL where the Pods can reach it.
func (s *story) database() (*pgx.Conn, string) {
	s.Helper()
	server, err := postgres.Start(s.ctx, io.Discard, hostAddress, "127.0.0.1")
	s.ok(err)
	s.Cleanup(func() { _ = server.Stop() })
	conn, err := pgx.Connect(s.ctx, server.URL("127.0.0.1"))
	s.ok(err)
	return conn, server.URL(hostAddress)
}

func (s *story) startAggregation(name, url, payload string) *v1alpha1.LeasedTask {
	s.Helper()
	return s.start(name, "", func(task *v1alpha1.LeasedTask) {
		task.Spec.Payload = &payload
		worker := &task.Spec.Template.Spec.Containers[0]
		worker.Image, worker.Command = aggregateImage, []string{"/aggregate"}
		worker.Env = []corev1.EnvVar{{Name: "AGGREGATE_STORE_URL", Value: url}}
		task.Spec.StopGraceSeconds = 30
	})
}

func (s *story) untilLogged(pod, line string) {
	s.Helper()
	s.ok(s.Poll(s.ctx, patience, func() error {
		if logs := s.kubectl("logs", "-n", s.namespace, pod); !strings.Contains(logs, line) {
			return fmt.Errorf("the log of %s does not say %q: %s", pod, line, logs)
		}
		return nil
	}))
}

// TestScenario3TheStaleWorker: the first attempt is frozen past its lease. The second one writes to PostgreSQL past the guard and
// completes. The first one wakes: the guard refuses its write, and the API server its submission; what the second did stands.
func TestScenario3TheStaleWorker(t *testing.T) {
	s := tell(t, sideBySide)
	s.buildAggregate()
	conn, url := s.database()
	s.ok(store.Setup(s.ctx, conn))
	task := s.startAggregation("stale", url, `{"units": 2, "unitSeconds": 5, "guarded": true}`)
	s.untilRunning(task, 1)
	token, pod := task.Status.FencingToken, task.Status.Holder.PodName
	s.untilLogged(pod, "unit 1 is done")
	children := s.children(task)
	s.local("freeze", pod, "-n", s.namespace)
	s.mustHaveRecovered(task, token, v1alpha1.AttemptFailed, "LeaseExpired")
	for _, pid := range children { // its command wakes a moment before its agent, which would kill it
		s.ok(syscall.Kill(pid, syscall.SIGCONT))
	}
	s.ok(s.Poll(s.ctx, patience, func() error {
		if _, refused, err := store.Rows(s.ctx, conn); err != nil || len(refused) == 0 {
			return errors.Join(errors.New("the guard has refused nothing"), err)
		}
		return nil
	}))
	s.local("thaw", pod, "-n", s.namespace)
	s.ok(s.Until(s.ctx, task, patience, "aware of the late submission", func(task *v1alpha1.LeasedTask) bool {
		return task.Status.History[0].LateSubmission.Outcome != ""
	}))
	s.untilLogged(pod, "refused: a higher token was here")

	second := store.Row{Task: task.Name, Attempt: 2, Token: task.Status.FencingToken}
	first := store.Row{Task: task.Name, Attempt: 1, Token: token}
	accepted, refused, err := store.Rows(s.ctx, conn)
	s.ok(err)
	s.must(slices.Equal(accepted, []store.Row{first, second, second}) && slices.Equal(refused, []store.Row{first}), "accepted %+v, refused %+v", accepted, refused)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && *task.Status.Result == "3 by attempt 2" && task.Status.History[0].LateSubmission.FencingToken == token,
		"the second attempt's result does not stand: %s", cluster.Describe(task))
}

// TestScenario5CooperativeCancellation: a ten-minute aggregation is cancelled on its way. It sees the cancel file before its next
// unit of work, rolls back, and acknowledges.
func TestScenario5CooperativeCancellation(t *testing.T) {
	s := tell(t, sideBySide)
	s.buildAggregate()
	conn, url := s.database()
	_, err := conn.Exec(s.ctx, `CREATE TABLE sums (task text NOT NULL, unit int NOT NULL, token bigint NOT NULL, PRIMARY KEY (task, unit))`)
	s.ok(err)
	rows := func(task string) (n int) {
		s.ok(conn.QueryRow(s.ctx, "SELECT count(*) FROM sums WHERE task = $1", task).Scan(&n))
		return n
	}
	short := s.startAggregation("short", url, `{"units": 4, "unitSeconds": 0.1}`)
	long := s.startAggregation("long", url, `{"units": 600, "unitSeconds": 1}`)
	s.untilRunning(long, 1)
	pod := long.Status.Holder.PodName
	s.untilLogged(pod, "unit 3 is done")
	asked := time.Now()
	s.cancel(long)
	s.mustBeCancelled(long, v1alpha1.EvidenceSubmission)
	took := time.Since(asked)

	end := long.Status.History[0]
	s.must(end.Outcome == v1alpha1.AttemptStopped && end.Reason == fencing.ReasonCancelled && end.ExitCode != nil && *end.ExitCode == 3 &&
		strings.Contains(end.Message, "no longer needed"), "the history does not show the acknowledgement: %+v", end)
	s.must(took < 20*time.Second, "Cancelled %s after it was asked for: a unit takes 1 s, the stop grace is 30 s", took)
	logs := s.kubectl("logs", "-n", s.namespace, pod)
	s.must(strings.Contains(logs, "unit 3 is done") && strings.Contains(logs, "no longer needed); rolled back") && !strings.Contains(logs, "unit 600"), "logs: %s", logs)
	s.must(rows("long") == 0, "%d partial rows", rows("long"))

	// The same worker, left alone, leaves its rows.
	s.untilFinished(short)
	s.must(short.Status.Phase == v1alpha1.PhaseCompleted && *short.Status.Result == "10 by attempt 1" && rows("short") == 4,
		"%s, %d rows", cluster.Describe(short), rows("short"))
}
