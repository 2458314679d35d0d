package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
	"github.com/leasehold-io/leasehold/test/faults/checker"
)

// tellsItsTime works for a moment, and has as its result when it began and ended, by the clock of the machine that all nodes share.
const tellsItsTime = `read -r began _ < /proc/uptime; sleep 0.3; read -r ended _ < /proc/uptime; echo "$began $ended" > "$LEASEHOLD_RESULT_FILE"`

// TestFiftyTasksOfOneKeyNeverOverlapThoughTheLeaderIsKilled in their middle: not by what the workers say of their own beginnings and
// ends, nor by what the API server has on record of their terms.
func TestFiftyTasksOfOneKeyNeverOverlapThoughTheLeaderIsKilled(t *testing.T) {
	s := tell(t, alone)
	const count, before = 50, 20
	leader := s.leader()
	log := filepath.Join(filepath.Dir(s.Kubeconfig()), "audit.log")
	offset, began := s.size(log), time.Now()
	tasks := make([]*v1alpha1.LeasedTask, count)
	for i := range tasks {
		tasks[i] = s.start(fmt.Sprintf("t%02d", i), tellsItsTime, func(task *v1alpha1.LeasedTask) { task.Spec.ConcurrencyKey = "ledger" })
	}
	s.ok(s.Poll(s.ctx, patience, func() error {
		if n := s.finished(); n < before {
			return fmt.Errorf("%d tasks have finished, %d are to", n, before)
		}
		return nil
	}))
	s.must(s.finished() < count-before, "the leader would be killed too late: %d tasks have finished", s.finished())
	s.ok(s.Delete(s.ctx, leader, client.GracePeriodSeconds(0)))
	for _, task := range tasks {
		s.untilFinished(task)
		s.must(task.Status.Phase == v1alpha1.PhaseCompleted && task.Status.Result != nil, "task %s: %+v", task.Name, task.Status)
	}
	t.Logf("%d tasks in %s", count, time.Since(began).Round(time.Second))
	s.mustNotOverlapByTheirOwnWord(tasks)
	s.mustNotOverlapOnRecord(tasks, log, offset)
	s.must(s.leader().Name != leader.Name, "the leader did not change: this shows nothing")
}

// finished is how many tasks of the story have.
func (s *story) finished() (n int) {
	s.Helper()
	list := &v1alpha1.LeasedTaskList{}
	s.ok(s.List(s.ctx, list, client.InNamespace(s.namespace)))
	for i := range list.Items {
		if cluster.IsFinished(&list.Items[i]) {
			n++
		}
	}
	return n
}

// mustNotOverlapByTheirOwnWord reads the results of tellsItsTime.
func (s *story) mustNotOverlapByTheirOwnWord(tasks []*v1alpha1.LeasedTask) {
	s.Helper()
	type run struct {
		task         string
		began, ended float64
	}
	var runs []run
	for _, task := range tasks {
		r := run{task: task.Name}
		_, err := fmt.Sscan(*task.Status.Result, &r.began, &r.ended)
		s.must(err == nil && r.ended > r.began, "task %s says %q", task.Name, *task.Status.Result)
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(a.began, b.began) })
	least := runs[1].began - runs[0].ended
	for i := 1; i < len(runs); i++ {
		s.must(runs[i-1].ended <= runs[i].began, "%+v and %+v overlap", runs[i-1], runs[i])
		least = min(least, runs[i].began-runs[i-1].ended)
	}
	s.Logf("the shortest pause between two workers is %.2f s", least)
}

// leaseVersion is a Lease as a write has left it.
type leaseVersion struct {
	Metadata struct {
		Name, ResourceVersion string
		Labels, Annotations   map[string]string
	}
	Spec struct{ HolderIdentity string }

	revision int64
	writer   string // the Pod
}

// mustNotOverlapOnRecord follows the Leases through the audit log, in the order of their versions: there never are two terms that
// are open, and each is granted while the task of the term has the key.
func (s *story) mustNotOverlapOnRecord(tasks []*v1alpha1.LeasedTask, log string, offset int64) {
	s.Helper()
	open, holder, granted, leaders := map[string]bool{}, "", 0, map[string]bool{}
	for _, l := range s.leasesOnRecord(log, offset) {
		task := l.Metadata.Labels["leasehold.io/task"]
		switch {
		case l.Metadata.Labels["leasehold.io/key"] != "":
			holder, leaders[l.writer] = l.Spec.HolderIdentity, true
		case l.Spec.HolderIdentity == "" || l.Metadata.Annotations["leasehold.io/submission"] != "":
			delete(open, task)
		case !open[task]:
			granted++
			open[task] = true
			s.must(holder == task, "revision %d: the term of %s is granted while %q has the key", l.revision, task, holder)
			s.must(len(open) == 1, "revision %d: the terms of %v are open", l.revision, open)
		}
	}
	s.Logf("%d terms of %d tasks, keys were written by %v", granted, len(tasks), leaders)
	s.must(granted >= len(tasks) && len(open) == 0, "%d terms are on record, %d are open", granted, len(open))
	s.must(len(leaders) >= 2, "%v wrote keys: this shows nothing of a change of leader", leaders)
}

// leasesOnRecord are all versions of the story's Leases since then, in their order.
func (s *story) leasesOnRecord(path string, offset int64) (versions []leaseVersion) {
	s.Helper()
	f, err := os.Open(path)
	s.ok(err)
	defer func() { _ = f.Close() }()
	_, err = f.Seek(offset, io.SeekStart)
	s.ok(err)
	audit := &checker.Audit{}
	s.ok(checker.ReadAudit(f, s.namespace, audit))
	for _, e := range audit.Events {
		if e.ObjectRef.Resource != "leases" || e.Verb == "delete" || e.ResponseStatus.Code >= 300 {
			continue
		}
		l := leaseVersion{writer: strings.Join(e.User.Extra["authentication.kubernetes.io/pod-name"], " ")}
		s.ok(json.Unmarshal(e.ResponseObject, &l))
		l.revision, err = strconv.ParseInt(l.Metadata.ResourceVersion, 10, 64)
		s.ok(err)
		versions = append(versions, l)
	}
	slices.SortFunc(versions, func(a, b leaseVersion) int { return cmp.Compare(a.revision, b.revision) })
	return versions
}
