package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/faults/checker"
	"github.com/leasehold-io/leasehold/test/faults/journal"
	"github.com/leasehold-io/leasehold/test/faults/store"
)

// Evidence collects what the witnesses have seen so far. A source that cannot be read is noted in it, not left out.
func (h *Harness) Evidence(ctx context.Context) (checker.Evidence, error) {
	h.mu.Lock()
	e := checker.Evidence{Namespace: h.Namespace, From: h.from, To: time.Now(), Outages: slices.Clone(h.outages)}
	h.mu.Unlock()
	for i := range e.Outages {
		if e.Outages[i].To.IsZero() {
			e.Outages[i].To = e.To
		}
	}
	if err := h.readLast(ctx, &e); err != nil { // its own requests are in the audit log, after To
		return e, err
	}
	note := func(source string, err error) {
		if err != nil {
			e.Damaged = append(e.Damaged, fmt.Sprintf("%s: %v", source, err))
		}
	}
	note("audit log", h.readAudit(&e.Audit))
	processes, err := journal.ReadAll(os.DirFS(h.Journals))
	note("journals", err)
	e.Journals = processes
	note("rows", h.readRows(ctx, &e))
	return e, nil
}

func (h *Harness) readLast(ctx context.Context, e *checker.Evidence) error {
	for kind, into := range map[schema.GroupVersionKind]*[]json.RawMessage{
		v1alpha1.GroupVersion.WithKind("LeasedTaskList"):        &e.LastTasks,
		coordinationv1.SchemeGroupVersion.WithKind("LeaseList"): &e.LastLeases,
	} {
		list := &unstructured.UnstructuredList{} // as it is on the wire, whatever our types know of it
		list.SetGroupVersionKind(kind)
		if err := h.Try(ctx, func() error { return h.List(ctx, list, client.InNamespace(h.Namespace)) }); err != nil {
			return err
		}
		for i := range list.Items {
			raw, err := list.Items[i].MarshalJSON()
			if err != nil {
				return err
			}
			*into = append(*into, raw)
		}
	}
	return nil
}

// readAudit reads the log and what was rotated away from it, oldest first.
func (h *Harness) readAudit(audit *checker.Audit) error {
	dir := filepath.Dir(h.Kubeconfig())
	rotated, err := filepath.Glob(filepath.Join(dir, "audit-*.log")) // their names end in the time of the rotation
	if err != nil {
		return err
	}
	for _, path := range append(rotated, filepath.Join(dir, "audit.log")) {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		err = checker.ReadAudit(file, h.Namespace, audit)
		_ = file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *Harness) readRows(ctx context.Context, e *checker.Evidence) error {
	conn, err := h.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	accepted, refused, err := store.Rows(ctx, conn)
	if err != nil {
		return err
	}
	for _, r := range accepted {
		e.Accepted = append(e.Accepted, checker.Row(r))
	}
	for _, r := range refused {
		e.Refused = append(e.Refused, checker.Row(r))
	}
	return nil
}
