package checker

import (
	"strings"
	"testing"
	"time"
)

const auditLog = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"1","stage":"ResponseComplete","requestURI":"/apis/coordination.k8s.io/v1/namespaces/faults/leases/lh-0123456789abcdef","verb":"patch","user":{"username":"system:serviceaccount:faults:default","uid":"u","groups":["system:serviceaccounts"],"extra":{"authentication.kubernetes.io/node-name":["lh-n1"],"authentication.kubernetes.io/pod-name":["t1-1-abcde"],"authentication.kubernetes.io/pod-uid":["pod-uid"]}},"sourceIPs":["10.244.1.5"],"objectRef":{"resource":"leases","namespace":"faults","name":"lh-0123456789abcdef","apiGroup":"coordination.k8s.io","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestObject":[{"op":"test","path":"/spec/holderIdentity","value":"t1-1-abcde"},{"op":"test","path":"/metadata/annotations/leasehold.io~1claim","value":null},{"op":"add","path":"/metadata/annotations/leasehold.io~1claim","value":"nonce/lh-n1/pod-uid"},{"op":"add","path":"/spec/renewTime","value":"2026-01-01T12:00:00.000001Z"}],"responseObject":{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"lh-0123456789abcdef","namespace":"faults","uid":"lease-uid","resourceVersion":"1234","labels":{"leasehold.io/task":"task-uid"},"annotations":{"leasehold.io/claim":"nonce/lh-n1/pod-uid","leasehold.io/task-name":"t1"}},"spec":{"holderIdentity":"t1-1-abcde","leaseDurationSeconds":10,"acquireTime":"2026-01-01T11:59:59.000000Z","renewTime":"2026-01-01T12:00:00.000001Z","leaseTransitions":1}},"requestReceivedTimestamp":"2026-01-01T12:00:00.001000Z","stageTimestamp":"2026-01-01T12:00:00.004000Z"}
{"kind":"Event","level":"Metadata","stage":"ResponseComplete","verb":"get","objectRef":{"resource":"leases","namespace":"faults","name":"lh-0123456789abcdef"},"responseStatus":{"code":200},"stageTimestamp":"2026-01-01T12:00:01.000000Z"}
{"kind":"Event","level":"Metadata","stage":"ResponseComplete","verb":"create","objectRef":{"resource":"pods","namespace":"other","name":"p"},"responseStatus":{"code":201},"stageTimestamp":"2026-01-01T12:00:02.000000Z"}
{"kind":"Event","level":"Metadata","stage":"ResponseComplete","verb":"create","objectRef":{"resource":"pods","subresource":"binding","namespace":"faults","name":"p"},"responseStatus":{"code":201},"stageTimestamp":"2026-01-01T12:00:02.500000Z"}
{"kind":"Event","level":"Metadata","stage":"ResponseStarted","verb":"watch","responseStatus":{"code":200},"stageTimestamp":"2026-01-01T12:00:03.000000Z"}
{"kind":"Event","stage":"Resp`

func TestReadAudit(t *testing.T) {
	var a Audit
	if err := ReadAudit(strings.NewReader(auditLog), "faults", &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Events) != 1 {
		t.Fatalf("%d events, want the one write of the namespace", len(a.Events))
	}
	if got := a.Covered.To.Sub(a.Covered.From); got != 2996*time.Millisecond {
		t.Errorf("it covers %s", got)
	}
	e := a.Events[0]
	if !e.isAccepted() || e.author().String() != "Pod t1-1-abcde (pod-uid)" || touches(&e) != (touched{claim: true, renewed: true}) {
		t.Errorf("%+v", e)
	}
	w := &world{Evidence: Evidence{Audit: a}, byUID: map[string]*task{}, byName: map[string]*task{}, deleted: map[string]time.Time{}}
	w.readLeases()
	moves := w.byUID["task-uid"].terms[0].moves
	if len(moves) != 2 || moves[0].kind != grant || !moves[0].isHidden || moves[1].kind != claim || moves[1].rv != 1234 {
		t.Errorf("%+v", moves)
	}
}

func TestABrokenAuditLogIsAnError(t *testing.T) {
	if err := ReadAudit(strings.NewReader("no JSON\n"), "faults", &Audit{}); err == nil {
		t.Error("no error")
	}
}

func TestAPatchThatIsNoListMayWriteAnything(t *testing.T) {
	for request, want := range map[string]touched{
		`[{"op":"test","path":"/spec/renewTime"},{"op":"add","path":"/spec/holderIdentity"}]`: {holder: true},
		`[{"op":"remove","path":"/metadata/annotations"}]`:                                    everything,
		`{"spec":{"holderIdentity":""}}`:                                                      everything,
		``:                                                                                    everything,
	} {
		if got := touches(&Event{Verb: "patch", RequestObject: []byte(request)}); got != want {
			t.Errorf("%s touches %+v", request, got)
		}
	}
}
