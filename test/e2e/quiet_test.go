package e2e

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

func TestCase34RestingAndRunningTasksCauseNoWritesButRenewals(t *testing.T) {
	s := tell(t, alone)
	const finished, runners, window = 50, 5, time.Minute
	resting := make([]*v1alpha1.LeasedTask, finished)
	for i := range resting {
		resting[i] = s.start(fmt.Sprintf("resting-%d", i), "true")
	}
	for _, task := range resting {
		s.untilFinished(task)
	}
	for i := range runners {
		s.untilRunning(s.start(fmt.Sprintf("running-%d", i), "sleep 600"), 1)
	}
	time.Sleep(35 * time.Second) // what is left to tidy is tidied 30 s after an attempt's end

	log := filepath.Join(filepath.Dir(s.Kubeconfig()), "audit.log")
	var before int64
	for tries := 3; ; tries-- { // what other stories have left may ask for passes, too; a window without any shows that renewals do not
		passes := s.passes()
		before = s.size(log)
		time.Sleep(window)
		caused := s.passes()
		maps.DeleteFunc(caused, func(rule string, count float64) bool { return count == passes[rule] })
		if len(caused) == 0 {
			break
		}
		for rule, count := range caused {
			t.Logf("%v passes over tasks in %s by %s", count-passes[rule], window, rule)
		}
		s.must(tries > 1, "there are passes over tasks in every window")
	}
	renewals := 0
	for _, e := range s.auditSince(log, before) {
		switch {
		case e.isRead() || !e.isOurs(s.namespace):
		case e.User.Username == operator && e.ObjectRef.Resource == "leases" && e.ObjectRef.Name == "leasehold-manager":
		case e.User.Username != operator && e.Verb == "patch" && e.ObjectRef.Resource == "leases" && e.ObjectRef.Namespace == s.namespace:
			renewals++
		default:
			t.Errorf("%s wrote: %s %s %s/%s %s", e.User.Username, e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name, e.ObjectRef.Subresource)
		}
	}
	expected := float64(runners) * window.Seconds() / (lease.Seconds() / 4)
	t.Logf("%d renewals in %s, %.0f if none were early", renewals, window, expected)
	s.must(float64(renewals) > 0.8*expected && float64(renewals) < 1.3*expected, "%d renewals, want about %.0f", renewals, expected)
}

const operator = "system:serviceaccount:leasehold-system:leasehold-manager"

// auditEvent is the part of an audit.k8s.io/v1 Event that is looked at.
type auditEvent struct {
	Verb string
	User struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef      struct{ Resource, Namespace, Name, Subresource string }
	ResponseStatus struct{ Code int }
}

func (e *auditEvent) isRead() bool { return e.Verb == "get" || e.Verb == "list" || e.Verb == "watch" }

func (e *auditEvent) isOurs(namespace string) bool {
	isReview := strings.HasSuffix(e.ObjectRef.Resource, "reviews") // made to authorize the reading of metrics; nothing is stored
	return !isReview && (e.User.Username == operator || strings.HasPrefix(e.User.Username, "system:serviceaccount:"+namespace+":"))
}

func (s *story) size(path string) int64 {
	s.Helper()
	info, err := os.Stat(path)
	s.ok(err)
	return info.Size()
}

func (s *story) auditSince(path string, offset int64) (events []auditEvent) {
	s.Helper()
	f, err := os.Open(path)
	s.ok(err)
	defer func() { _ = f.Close() }()
	_, err = f.Seek(offset, io.SeekStart)
	s.ok(err)
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events // what follows the last newline is being written
		}
		s.ok(err)
		e := auditEvent{}
		s.ok(json.Unmarshal(line, &e))
		events = append(events, e)
	}
}

// passes are the numbers of passes over tasks so far by rule, summed over the operator's replicas.
func (s *story) passes() map[string]float64 {
	s.Helper()
	sum := map[string]float64{}
	pods := &corev1.PodList{}
	s.ok(s.List(s.ctx, pods, client.InNamespace(system), ofOperator))
	scraper := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, pod := range pods.Items {
		req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, "https://"+pod.Status.PodIP+":8443/metrics", nil)
		s.ok(err)
		req.Header.Set("Authorization", "Bearer "+s.Config.BearerToken)
		resp, err := scraper.Do(req)
		s.ok(err)
		body, err := io.ReadAll(resp.Body)
		s.ok(errors.Join(err, resp.Body.Close()))
		s.must(resp.StatusCode == http.StatusOK, "GET /metrics: %s: %s", resp.Status, body)
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, "leasehold_decisions_total{") {
				fields := strings.Fields(line)
				value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
				s.ok(err)
				sum[fields[0]] += value
			}
		}
	}
	return sum
}
