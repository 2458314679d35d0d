package key

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// Label marks a key Lease; its value is the kind. The admission policies read it. A key Lease also bears mailbox.TaskLabel, with
// the UID of its latest holder.
const Label = "leasehold.io/key"

// Annotations of a key Lease, besides mailbox.TaskNameAnnotation, which names the latest holder.
const (
	ValueAnnotation     = "leasehold.io/key"            // the key itself, for people and for checking the name
	HashAnnotation      = "leasehold.io/payload-hash"   // of the holder, for idempotency
	AnswerAnnotation    = "leasehold.io/answer"         // an Answer, in JSON
	BlockedByAnnotation = "leasehold.io/blocked-by"     // names of dead letters, the latest first, with spaces between
	OnDeadAnnotation    = "leasehold.io/on-dead-letter" // blockKey, or absent
	NewestAnnotation    = "leasehold.io/newest"         // a Contender, in JSON
)

const blockKey = "BlockKey"

// namePrefix begins the names of all key Leases.
const namePrefix = "lh-key-"

// maxLetters bounds the dead letters that a block names: a replay that dies in its turn, and its replay, and so on.
const maxLetters = 8

// Kind says what equal keys exclude. It is closed.
type Kind string

const (
	// Idempotency: work is done once for a key, and its result is kept.
	Idempotency Kind = "Idempotency"
	// Concurrency: at most one task of a key is under way.
	Concurrency Kind = "Concurrency"
)

// Name is the name of a key's Lease: lh-key- and 32 hex digits of a hash of kind and key. Nobody checks for collisions: at
// this length there are none, not even on purpose.
func Name(kind Kind, value string) string {
	sum := sha256.Sum256([]byte(string(kind) + "\x00" + value))
	return namePrefix + hex.EncodeToString(sum[:16])
}

// Lock is what a key Lease says, in the protocol's words.
type Lock struct {
	UID             string // of the Lease object
	ResourceVersion string // empty: it is not there yet

	Kind  Kind
	Value string // the key

	Holder     string // UID of the task that holds the key; empty: nobody
	HolderName string // of the latest holder
	HolderUID  string // of the latest holder, also after it
	Hash       string // of the holder's payload
	Duration   time.Duration
	TakenAt    time.Time
	// BlocksWhenDead: the holder's dead letter, should it get one, blocks the key.
	BlocksWhenDead bool
	// BlockedBy are dead letters, the latest first: with no holder, they block the key; with one, it is a replay of one of them.
	BlockedBy []string
	// Newest is the newest of the tasks that have asked for the key, to replace what is older; it may hold the key by now. nil: none has.
	Newest *Contender
	Answer *Answer
}

// Answer is what came of the work of an idempotency key.
type Answer struct {
	Task    string  `json:"task"` // the task that did it
	TaskUID string  `json:"uid"`
	Hash    string  `json:"payloadHash"`
	Result  *string `json:"result,omitempty"`
	// ResultRef is where the result is, if it is kept elsewhere.
	ResultRef        *fencing.ResultRef `json:"resultRef,omitempty"`
	Time             metav1.Time        `json:"time"`
	RetentionSeconds int32              `json:"retentionSeconds"`
}

// Expiry is when the answer is forgotten.
func (a *Answer) Expiry() time.Time {
	return a.Time.Add(time.Duration(a.RetentionSeconds) * time.Second)
}

// Read translates a Lease into a lock; nil if it is no key Lease: anybody who may edit Leases can give one our label, but the
// name has to follow from the key. What cannot be read counts as not written.
func Read(lease *coordinationv1.Lease) *Lock {
	kind := Kind(lease.Labels[Label])
	value := lease.Annotations[ValueAnnotation]
	if (kind != Idempotency && kind != Concurrency) || lease.Name != Name(kind, value) {
		return nil
	}
	l := &Lock{
		UID:             string(lease.UID),
		ResourceVersion: lease.ResourceVersion,
		Kind:            kind,
		Value:           value,
		HolderName:      lease.Annotations[mailbox.TaskNameAnnotation],
		HolderUID:       lease.Labels[mailbox.TaskLabel],
		Hash:            lease.Annotations[HashAnnotation],
		BlocksWhenDead:  lease.Annotations[OnDeadAnnotation] == blockKey,
		BlockedBy:       strings.Fields(lease.Annotations[BlockedByAnnotation]),
	}
	if h := lease.Spec.HolderIdentity; h != nil {
		l.Holder = *h
	}
	if d := lease.Spec.LeaseDurationSeconds; d != nil {
		l.Duration = time.Duration(*d) * time.Second
	}
	if t := lease.Spec.AcquireTime; t != nil {
		l.TakenAt = t.Time
	}
	if raw := lease.Annotations[AnswerAnnotation]; raw != "" && kind == Idempotency {
		answer := &Answer{}
		if json.Unmarshal([]byte(raw), answer) == nil && answer.TaskUID != "" {
			l.Answer = answer
		}
	}
	if kind == Concurrency {
		l.Newest = readContender(lease.Annotations[NewestAnnotation])
	}
	return l
}

// Lease renders a lock as the Lease object to create, or to update where ResourceVersion names what it replaces. What
// others have put on the Lease is not kept: it could grow until the API server takes no more.
func (l *Lock) Lease(namespace string) *coordinationv1.Lease {
	annotations := map[string]string{ValueAnnotation: l.Value, mailbox.TaskNameAnnotation: l.HolderName}
	if l.Hash != "" {
		annotations[HashAnnotation] = l.Hash
	}
	if l.BlocksWhenDead {
		annotations[OnDeadAnnotation] = blockKey
	}
	if len(l.BlockedBy) > 0 {
		annotations[BlockedByAnnotation] = strings.Join(l.BlockedBy, " ")
	}
	if l.Answer != nil {
		annotations[AnswerAnnotation] = l.Answer.encode()
	}
	if l.Newest != nil {
		annotations[NewestAnnotation] = l.Newest.encode()
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       namespace,
			Name:            Name(l.Kind, l.Value),
			ResourceVersion: l.ResourceVersion,
			Labels:          map[string]string{Label: string(l.Kind), mailbox.TaskLabel: l.HolderUID},
			Annotations:     annotations,
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       new(l.Holder),
			LeaseDurationSeconds: new(int32(fencing.TimingFor(l.Duration).Duration / time.Second)),
			AcquireTime:          new(metav1.NewMicroTime(l.TakenAt)),
		},
	}
}

// encode writes an answer. It is at most a little larger than the submission that it came with: see fencing.MaxSubmissionBytes.
func (a *Answer) encode() string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // a result full of '<' must not grow sixfold
	if err := enc.Encode(a); err != nil {
		panic(fmt.Sprintf("texts and a time cannot fail to encode: %v", err)) // programming error
	}
	return strings.TrimSuffix(buf.String(), "\n")
}

// Take is the lock once the claimant has it, over what was seen; nil: nothing was there. What blocked the key stays on it until
// the claimant's success, and so does who has asked for it. One that replaces what is older says so with it.
func Take(seen *Lock, kind Kind, value string, by *Claimant, now time.Time) *Lock {
	l := &Lock{Kind: kind, Value: value}
	if seen != nil {
		l.ResourceVersion, l.BlockedBy, l.Newest = seen.ResourceVersion, slices.Clone(seen.BlockedBy), seen.Newest
	}
	if by.isReplacing(l) {
		l.Newest = by.contender()
	}
	l.Holder, l.HolderUID, l.HolderName, l.Duration, l.TakenAt = by.UID, by.UID, by.Name, by.Duration, now
	l.BlocksWhenDead = by.BlocksWhenDead
	if kind == Idempotency {
		l.Hash = by.Hash
	}
	return l
}

// Record is the lock once it bears the claimant's answer, over what was seen; nil: nothing was there.
func Record(seen *Lock, value string, by *Claimant, answer *Answer) *Lock {
	l := Take(seen, Idempotency, value, by, answer.Time.Time)
	if seen != nil {
		l.TakenAt = seen.TakenAt
	}
	l.BlockedBy, l.BlocksWhenDead, l.Answer = nil, false, answer
	return l
}

// Block is the lock once nobody holds it but dead letters, the latest first. That the holder itself was the newest ends with it.
func Block(seen *Lock, letters []string) *Lock {
	l := *seen
	l.Holder, l.BlockedBy = "", slices.Clone(letters[:min(len(letters), maxLetters)])
	if l.Newest != nil && l.Newest.UID == l.HolderUID {
		l.Newest = nil
	}
	return &l
}
