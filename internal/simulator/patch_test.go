package simulator

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// JSON pointers that the protocol's patches name. Another one is a programming error.
const (
	holderPath     = "/spec/holderIdentity"
	renewPath      = "/spec/renewTime"
	versionPath    = "/metadata/resourceVersion"
	stopPath       = "/metadata/annotations/leasehold.io~1stop"
	claimPath      = "/metadata/annotations/leasehold.io~1claim"
	submissionPath = "/metadata/annotations/leasehold.io~1submission"
	endedPath      = "/metadata/annotations/leasehold.io~1ended"
)

// patched is what the API server makes of a JSON patch on a Lease; it is false if one of the tests fails. It knows no more
// than the members and operations of the protocol; TestPatched compares it with a complete implementation.
func patched(term fencing.Term, patch []byte) (fencing.Term, bool) {
	var operations []struct {
		Op, Path string
		Value    *string
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		panic(err)
	}
	for _, o := range operations {
		switch o.Op {
		case "test":
			if !isSame(member(&term, o.Path), o.Value) {
				return fencing.Term{}, false
			}
		case "add":
			setMember(&term, o.Path, *o.Value)
		default:
			panic("unknown operation " + o.Op)
		}
	}
	return term, true
}

func isSame(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// member is a member's stored text; nil: it is absent.
func member(term *fencing.Term, path string) *string {
	switch {
	case path == holderPath:
		return &term.Holder
	case path == renewPath && !term.RenewTime.IsZero():
		return new(term.RenewTime.UTC().Format(fencing.TimeFormat))
	case path == claimPath && term.Claim != nil:
		return new(term.Claim.String())
	case path == submissionPath && term.Submission != nil:
		return new(encoded(*term.Submission))
	case path == stopPath && term.Stop != nil:
		return new(term.Stop.String())
	case path == versionPath && term.ResourceVersion != "":
		return &term.ResourceVersion
	case path == renewPath, path == claimPath, path == submissionPath, path == versionPath, path == stopPath:
		return nil
	}
	panic("unknown member " + path)
}

func setMember(term *fencing.Term, path, value string) {
	switch path {
	case holderPath:
		term.Holder = value
	case renewPath:
		at, err := time.Parse(fencing.TimeFormat, value)
		if err != nil {
			panic(err)
		}
		term.RenewTime = at
	case claimPath:
		term.Claim = new(fencing.ParseClaim(value))
	case stopPath:
		term.Stop = new(fencing.ParseStop(value))
	case endedPath:
		term.Ended = value
	case submissionPath:
		term.Submission = new(fencing.ParseSubmission(value))
	default:
		panic("unknown member " + path)
	}
}

// isDenied is the part of the admission policy that the protocol cannot do without: claim and submission are written once, and a
// term that is over is not renewed. Nothing else stands between a worker and a Lease here: who writes must be told by the tests in
// the patches alone.
func isDenied(was, is *fencing.Term) bool {
	isRewritten := func(path string) bool {
		before := member(was, path)
		return before != nil && !isSame(before, member(is, path))
	}
	isOver := was.Submission != nil && (was.Holder != is.Holder || !was.RenewTime.Equal(is.RenewTime))
	return isRewritten(claimPath) || isRewritten(submissionPath) || isOver
}

func encoded(s fencing.Submission) string {
	raw, err := s.Encode()
	if err != nil {
		panic(fmt.Sprintf("a submission of strings cannot fail to encode: %v", err))
	}
	return string(raw)
}
