package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/hack/image/archive"
	"github.com/leasehold-io/leasehold/test/cluster"
)

const (
	upgradeImage = "leasehold/upgrade:dev"
	users        = 3
	relays       = 2
)

// upgrades are what the outbox holds, or the broker got: the id of the event, by user and level.
type upgrades map[string]string

// buildUpgrade builds what the scenario needs of the worker module, and puts worker and relay on the nodes.
func (s *story) buildUpgrade() (programs string) {
	s.Helper()
	programs = s.TempDir()
	built, err := exec.CommandContext(s.ctx, "go", "build", "-C", "../../worker", "-trimpath", "-ldflags=-s -w", "-o", programs,
		"./outbox/test/upgrade", "./outbox/test/stream", "github.com/nats-io/nats-server/v2").CombinedOutput()
	s.must(err == nil, "build: %v: %s", err, built)
	content, err := os.ReadFile(filepath.Join(programs, "upgrade"))
	s.ok(err)
	image := filepath.Join(programs, "upgrade.tar")
	s.ok(archive.Write(image, archive.Spec{Tag: upgradeImage, Entries: []archive.Entry{archive.File("/upgrade", 0o755, content)},
		Entrypoint: []string{"/upgrade"}, User: "1000:1000"}))
	s.local("load", image, "bin/outbox-relay.tar")
	return programs
}

// setUpUsers makes the users, the outbox and the guard.
func (s *story) setUpUsers(conn *pgx.Conn) {
	s.Helper()
	for _, file := range []string{"guard/postgres/migrations/0001_fencing.sql", "outbox/postgres/migrations/0001_outbox.sql"} {
		migration, err := os.ReadFile(filepath.Join("../../worker", file))
		s.ok(err)
		_, err = conn.Exec(s.ctx, string(migration))
		s.ok(err)
	}
	_, err := conn.Exec(s.ctx, `CREATE TABLE users (name text PRIMARY KEY, level int NOT NULL DEFAULT 0)`)
	s.ok(err)
	_, err = conn.Exec(s.ctx, `INSERT INTO users SELECT 'user-' || n FROM generate_series(1, $1) AS n`, users)
	s.ok(err)
}

// deployRelay installs the chart's relay, and nothing else of the chart, in the story's namespace.
func (s *story) deployRelay(database string, b *broker) {
	s.Helper()
	ca, err := os.ReadFile(b.ca)
	s.ok(err)
	for name, url := range map[string]string{"shop-database": database, "shop-broker": b.url} {
		secret := &corev1.Secret{StringData: map[string]string{"url": url}}
		secret.Namespace, secret.Name = s.namespace, name
		s.ok(s.Create(s.ctx, secret))
	}
	authorities := &corev1.ConfigMap{Data: map[string]string{"ca.crt": string(ca)}}
	authorities.Namespace, authorities.Name = s.namespace, "shop-authorities"
	s.ok(s.Create(s.ctx, authorities))
	printed, err := s.Helm(s.ctx, "template", "leasehold", "charts/leasehold", "--namespace", s.namespace, "--kube-version", "1.31.0",
		"--show-only", "templates/outbox-relay.yaml",
		"--set", fmt.Sprintf("outboxRelay.enabled=true,outboxRelay.replicas=%d", relays),
		"--set", "outboxRelay.databaseSecret.name=shop-database,outboxRelay.caConfigMap.name=shop-authorities",
		"--set", "outboxRelay.sink.type=nats,outboxRelay.sink.urlSecret.name=shop-broker,outboxRelay.settings.deliveryTimeout=2s")
	s.ok(err)
	manifest := filepath.Join(b.dir, "relay.yaml")
	s.ok(os.WriteFile(manifest, []byte(printed), 0o600))
	s.kubectl("apply", "--server-side", "-f", manifest)
	s.untilRelaysAreReady(nil)
}

// relayPods are the Pods of the relay that are ready, by UID.
func (s *story) relayPods() map[types.UID]corev1.Pod {
	s.Helper()
	pods, ready := &corev1.PodList{}, map[types.UID]corev1.Pod{}
	s.ok(s.List(s.ctx, pods, client.InNamespace(s.namespace), client.MatchingLabels{"app.kubernetes.io/component": "outbox-relay"}))
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready[pod.UID] = pod
			}
		}
	}
	return ready
}

// untilRelaysAreReady waits for others than the given ones.
func (s *story) untilRelaysAreReady(former map[types.UID]corev1.Pod) {
	s.Helper()
	s.ok(s.Poll(s.ctx, patience, func() error {
		ready := s.relayPods()
		for uid := range former {
			delete(ready, uid)
		}
		if len(ready) != relays {
			return fmt.Errorf("%d relays are ready", len(ready))
		}
		return nil
	}))
}

// replaceRelays kills the relays without a chance to settle anything.
func (s *story) replaceRelays() {
	s.Helper()
	former := s.relayPods()
	s.kubectl("delete", "pods", "-n", s.namespace, "-l", "app.kubernetes.io/component=outbox-relay", "--grace-period=0", "--force")
	s.untilRelaysAreReady(former)
}

// outages is how many rounds of the relays found the broker away.
func (s *story) outages() (sum float64) {
	s.Helper()
	var pages []string
	for _, pod := range s.relayPods() {
		response, err := http.Get("http://" + pod.Status.PodIP + ":8080/metrics")
		s.ok(err)
		page, err := io.ReadAll(response.Body)
		s.ok(errors.Join(err, response.Body.Close()))
		pages = append(pages, string(page))
	}
	return metric(pages, `outbox_rounds_total{outcome="outage"}`)
}

// upgrade raises each user to the level, by a task each. The first attempts die in their last transaction.
func (s *story) upgrade(url string, level int) {
	s.Helper()
	var tasks []*v1alpha1.LeasedTask
	for n := range users {
		tasks = append(tasks, s.start(fmt.Sprintf("user-%d-%d", n+1, level), "", func(task *v1alpha1.LeasedTask) {
			task.Spec.Payload = new(fmt.Sprintf(`{"user": "user-%d", "level": %d, "dieAt": %d}`, n+1, level, level))
			worker := &task.Spec.Template.Spec.Containers[0]
			worker.Image, worker.Command = upgradeImage, []string{"/upgrade"}
			worker.Env = []corev1.EnvVar{{Name: "UPGRADE_STORE_URL", Value: url}}
		}))
	}
	for _, task := range tasks {
		s.untilFinished(task)
		s.must(task.Status.Phase == v1alpha1.PhaseCompleted && *task.Status.Result == fmt.Sprintf("level %d", level) && task.Status.Failures == 1,
			"task %s: %s", task.Name, cluster.Describe(task))
	}
}

func (s *story) count(conn *pgx.Conn, table string) (n int) {
	s.Helper()
	s.ok(conn.QueryRow(s.ctx, "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// waiting is what the outbox holds.
func (s *story) waiting(conn *pgx.Conn) upgrades {
	s.Helper()
	rows, err := conn.Query(s.ctx, "SELECT key || convert_from(data, 'UTF8'), id FROM leasehold_outbox")
	s.ok(err)
	found := upgrades{}
	var event, id string
	_, err = pgx.ForEachRow(rows, []any{&event, &id}, func() error {
		found[event] = id
		return nil
	})
	s.ok(err)
	return found
}

// whileAway upgrades all users by two levels while the broker is away, and returns the events that wait for it.
func (s *story) whileAway(conn *pgx.Conn, url string, level int) upgrades {
	s.Helper()
	before := s.outages()
	s.upgrade(url, level)
	s.ok(s.Poll(s.ctx, patience, func() error {
		if s.outages() == before {
			return errors.New("no relay has noticed that the broker is away")
		}
		return nil
	}))
	kept, parked := s.waiting(conn), s.count(conn, "leasehold_outbox_parked")
	s.must(len(kept) == 2*users && parked == 0, "the outbox holds %v, and %d are parked", kept, parked)
	return kept
}

func (s *story) untilDelivered(conn *pgx.Conn) {
	s.Helper()
	s.ok(s.Poll(s.ctx, patience, func() error {
		if n := s.count(conn, "leasehold_outbox"); n > 0 {
			return fmt.Errorf("%d events wait", n)
		}
		return nil
	}))
}

// TestScenario6: a worker changes a row and records "UserUpgraded" in one transaction, while the broker is cut off, first by silence and
// then by being gone, with the relays, too. Nothing is lost and nothing told that was rolled back. When the broker is back each event
// arrives at least once, under the id that it had from the start, those of a user in order.
func TestScenario6NothingIsLostWhileTheBrokerIsCutOffAndThenAllArrivesInOrder(t *testing.T) {
	s := tell(t, sideBySide)
	programs := s.buildUpgrade()
	conn, url := s.database()
	s.setUpUsers(conn)
	b := s.startBroker(programs)
	s.deployRelay(url, b)

	s.upgrade(url, 2)
	s.untilDelivered(conn)
	b.freeze()
	silent := s.whileAway(conn, url, 4)
	b.thaw()
	s.untilDelivered(conn)
	b.kill()
	gone := s.whileAway(conn, url, 6)
	s.replaceRelays()
	s.must(cmp.Equal(s.waiting(conn), gone), "the relays took something along: %v, before: %v", s.waiting(conn), gone)
	b.start()
	s.untilDelivered(conn)

	got, order, messages := upgrades{}, map[string][]string{}, b.published()
	for _, m := range messages {
		event := m.Key + m.Data
		s.must(m.ID != "" && m.Subject == "outbox.com.example.UserUpgraded", "message %+v", m)
		if _, isRepeat := got[event]; !isRepeat {
			got[event] = m.ID
			order[m.Key] = append(order[m.Key], m.Data)
		}
		s.must(got[event] == m.ID, "%s came as %s and as %s", event, got[event], m.ID)
	}
	s.Logf("%d events in %d messages", len(got), len(messages))
	for event, id := range silent {
		s.must(got[event] == id, "%s was %s in the outbox, and came as %s", event, id, got[event])
	}
	for event, id := range gone {
		s.must(got[event] == id, "%s was %s in the outbox, and came as %s", event, id, got[event])
	}
	for n := range users {
		var want []string
		for level := range 6 {
			want = append(want, fmt.Sprintf(`{"level":%d}`, level+1))
		}
		if diff := cmp.Diff(want, order[fmt.Sprintf("user-%d", n+1)]); diff != "" {
			s.Errorf("user-%d (-want +got):\n%s", n+1, diff)
		}
	}
}
