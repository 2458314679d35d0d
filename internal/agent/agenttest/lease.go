package agenttest

import (
	"encoding/json"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// Annotations of a term Lease, spelled out: a fake that shared its constants with the code would share its mistakes.
const (
	claimAnnotation      = "leasehold.io/claim"
	submissionAnnotation = "leasehold.io/submission"
)

// lease is what the policy looks at.
type lease struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		HolderIdentity string `json:"holderIdentity"`
		RenewTime      string `json:"renewTime"`
	} `json:"spec"`
}

func parse(doc []byte) (l lease) {
	if err := json.Unmarshal(doc, &l); err != nil {
		panic(err)
	}
	return l
}

// GrantedLease is a Lease as the controller grants it.
func GrantedLease(name, holder string, seconds, attempt int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
"metadata":{"name":%q,"labels":{"leasehold.io/task":"uid-1"},"annotations":{"leasehold.io/task-name":"t"}},
"spec":{"holderIdentity":%q,"leaseDurationSeconds":%d,"leaseTransitions":%d,"acquireTime":"2026-01-01T00:00:00.000000Z"}}`,
		name, holder, seconds, attempt)
}

// Apply applies an agent's patch to a Lease as the API server does, and returns the new Lease or the refusal.
func Apply(doc, patch []byte) (next []byte, code int, body string) {
	next, code, body = ApplyOperator(doc, patch)
	if next == nil {
		return nil, code, body
	}
	if message := denied(parse(doc), parse(next)); message != "" {
		return nil, http.StatusForbidden, status("Forbidden", message)
	}
	return next, code, body
}

// ApplyOperator is the same for the operator's patch, which the admission policy does not judge.
func ApplyOperator(doc, patch []byte) (next []byte, code int, body string) {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, http.StatusBadRequest, `{"kind":"Status","reason":"BadRequest"}`
	}
	if next, err = decoded.Apply(doc); err != nil {
		return nil, http.StatusUnprocessableEntity, FailedTest
	}
	return next, http.StatusOK, string(next)
}

// FailedTest is the API server's answer to a patch whose `test` failed.
const FailedTest = `{"kind":"Status","status":"Failure","message":"the server rejected our request due to an error in our request",` +
	`"reason":"Invalid","details":{},"code":422}`

// UnreasonedPolicy is its answer, with a 422, where an admission policy denies without a reason or cannot be evaluated.
const UnreasonedPolicy = `{"kind":"Status","status":"Failure","message":"leases.coordination.k8s.io \"lh-1\" is forbidden: ` +
	`ValidatingAdmissionPolicy 'theirs' denied request: failed to configure policy: not found","reason":"Invalid","details":{"name":"lh-1",` +
	`"group":"coordination.k8s.io","kind":"leases","causes":[{"message":"failed to configure policy: not found"}]},"code":422}`

func status(reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","status":"Failure","reason":%q,"message":%q,"details":{"causes":[{"message":%q}]}}`,
		reason, message, message)
}

// denied is the part of the admission policy that decides races: claim and submission are written once, and a term that is
// over is not renewed.
func denied(before, after lease) string {
	oldClaim, newClaim := before.Metadata.Annotations[claimAnnotation], after.Metadata.Annotations[claimAnnotation]
	oldSub, newSub := before.Metadata.Annotations[submissionAnnotation], after.Metadata.Annotations[submissionAnnotation]
	switch {
	case oldClaim != "" && oldClaim != newClaim:
		return "the claim names the calling Pod and is made once"
	case oldSub != "" && oldSub != newSub:
		return "a submission is made once"
	case oldSub != "" && before.Spec != after.Spec:
		return "the term is over"
	default:
		return ""
	}
}
