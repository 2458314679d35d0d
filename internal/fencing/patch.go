package fencing

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

// Annotations of a term Lease.
const (
	ClaimAnnotation      = "leasehold.io/claim"
	SubmissionAnnotation = "leasehold.io/submission"
	StopAnnotation       = "leasehold.io/stop"
	// EndedAnnotation is the version that a revoke ended.
	EndedAnnotation = "leasehold.io/ended"
)

// TimeFormat is how the API server writes a MicroTime: exactly six fractional digits.
const TimeFormat = "2006-01-02T15:04:05.000000Z07:00"

// JSON pointers into a Lease. A slash inside an annotation's name is written ~1.
const (
	holderPath     = "/spec/holderIdentity"
	renewPath      = "/spec/renewTime"
	versionPath    = "/metadata/resourceVersion"
	claimPath      = "/metadata/annotations/leasehold.io~1claim"
	submissionPath = "/metadata/annotations/leasehold.io~1submission"
	stopPath       = "/metadata/annotations/leasehold.io~1stop"
	endedPath      = "/metadata/annotations/leasehold.io~1ended"
)

// operation is one step of a JSON patch (RFC 6902). Value is always written: `test` with null passes for an absent
// member. `add` sets set and unset members alike; `replace` is not used, because servers disagree on absent members.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func test(path string, value any) operation { return operation{Op: "test", Path: path, Value: value} }
func add(path string, value any) operation  { return operation{Op: "add", Path: path, Value: value} }

func encode(ops ...operation) []byte {
	raw, err := json.Marshal(ops)
	if err != nil {
		panic(fmt.Sprintf("a patch of strings cannot fail to encode: %v", err)) // programming error
	}
	return raw
}

// ClaimPatch claims a granted term for one process. It is refused if the holder is another, or if any process has claimed.
func ClaimPatch(holder string, claim Claim, now time.Time) []byte {
	return encode(test(holderPath, holder), test(claimPath, nil),
		add(claimPath, claim.String()), add(renewPath, formatTime(now)))
}

// RenewPatch renews a claimed term. It is refused unless holder and claim stand as given. It is also the repeat of a claim
// whose answer was lost: it succeeds only if that claim had landed.
func RenewPatch(holder string, claim Claim, now time.Time) []byte {
	return Note{}.RenewPatch(holder, claim, now)
}

// SubmitPatch ends a claimed term with the agent's last word. An identical repeat is a no-op; that another submission
// is refused is the admission policy's part, so that a repeat after a lost answer is not mistaken for a refusal.
func SubmitPatch(holder string, claim Claim, encoded []byte) []byte {
	return encode(submitOps(holder, claim, encoded)...)
}

func submitOps(holder string, claim Claim, encoded []byte) []operation {
	ops := []operation{test(holderPath, holder), test(claimPath, claim.String()), add(submissionPath, string(encoded))}
	if bug.Is(bug.NoHolderTest) {
		ops = ops[1:]
	}
	return ops
}

// StopPatch asks the holder of an open term to end. It is refused if the term has ended or was claimed meanwhile, or if it
// bears another stop than the one that was seen.
func StopPatch(seen *Term, stop Stop) []byte {
	ops := append(asSeen(seen), test(stopPath, nil), add(stopPath, stop.String()))
	if seen.Stop != nil {
		ops[len(ops)-2] = test(stopPath, seen.Stop.String())
	}
	return encode(ops...)
}

// RevokePatch ends an open term exactly as it was seen: it is refused if the holder has claimed or submitted meanwhile.
// With thisVersion, also if it has renewed meanwhile; the version tells that too of a renewal that was undone by an old one which the
// network delivered twice. The Lease then says which version was ended: whoever had seen that one knows that no renewal came after
// it, whoever had not, does not.
func RevokePatch(seen *Term, thisVersion bool) []byte {
	ops := asSeen(seen)
	if thisVersion {
		ops = append(ops, test(renewPath, storedTime(seen.RenewTime)), test(versionPath, storedText(seen.ResourceVersion)))
		if seen.ResourceVersion != "" {
			ops = append(ops, add(endedPath, seen.ResourceVersion))
		}
	}
	return encode(append(ops, add(holderPath, ""))...)
}

// asSeen tests that an open term has not moved on: same holder, same claim, nothing submitted.
func asSeen(seen *Term) []operation {
	ops := []operation{test(holderPath, seen.Holder), test(claimPath, nil), test(submissionPath, nil)}
	if seen.Claim != nil {
		ops[1] = test(claimPath, seen.Claim.String())
	}
	return ops
}

func formatTime(t time.Time) string { return t.UTC().Format(TimeFormat) }

// storedText is the value that a `test` of a stored text expects: null when it is absent.
func storedText(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// storedTime is the value that a `test` of a stored time expects: null when it is absent.
func storedTime(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return formatTime(t)
}
