package key_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func answerOf(uid, hash string, age time.Duration) *key.Lock {
	return &key.Lock{Kind: key.Idempotency, Holder: uid, Answer: &key.Answer{Task: "t", TaskUID: uid, Hash: hash, Time: metav1.NewTime(start.Add(-age)), RetentionSeconds: 60}}
}

func TestJudge(t *testing.T) {
	held := func(uid, hash string) *key.Lock { return &key.Lock{Kind: key.Idempotency, Holder: uid, Hash: hash} }
	me := key.Claimant{UID: "me", Hash: "a"}
	replay := key.Claimant{UID: "me", Hash: "a", Replays: "dl-1"}
	unknown := key.Claimant{UID: "me"}
	tests := map[string]judgeTest{
		"no Lease":                                    {nil, me, key.Free},
		"a Lease that says nothing":                   {&key.Lock{Kind: key.Concurrency}, me, key.Free},
		"held by me":                                  {held("me", "a"), me, key.Mine},
		"held by another":                             {held("other", "a"), me, key.Busy},
		"held by another, for another payload":        {held("other", "b"), me, key.Conflict},
		"held by one of an unknown payload":           {held("other", ""), me, key.Busy},
		"held, my payload not known":                  {held("other", "b"), unknown, key.Busy},
		"held for another payload, and I am a repair": {held("other", "b"), replay, key.Busy},
		"a concurrency key has no payload":            {&key.Lock{Kind: key.Concurrency, Holder: "other", Hash: "b"}, me, key.Busy},
		"answered":                                    {answerOf("other", "a", 0), me, key.Finished},
		"answered, in the last second":                {answerOf("other", "a", 59*time.Second), me, key.Finished},
		"answered too long ago":                       {answerOf("other", "a", time.Minute), me, key.Expired},
		"answered for another payload":                {answerOf("other", "b", 0), me, key.Conflict},
		"answered for another payload, and I repair":  {answerOf("other", "b", 0), replay, key.Conflict},
		"answered for another payload, too long ago":  {answerOf("other", "b", time.Hour), me, key.Expired},
		"answered by myself, however long ago":        {answerOf("me", "a", time.Hour), me, key.Finished},
		"blocked":                                     {&key.Lock{BlockedBy: []string{"dl-1"}}, me, key.Blocked},
		"blocked by what I replay":                    {&key.Lock{BlockedBy: []string{"dl-2", "dl-1"}}, replay, key.Inherited},
		"blocked by something else than I replay":     {&key.Lock{BlockedBy: []string{"dl-2"}}, replay, key.Blocked},
		"held by another replay":                      {&key.Lock{Holder: "other", BlockedBy: []string{"dl-1"}}, replay, key.Busy},
	}
	for name, test := range policyTests() {
		tests[name] = test
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := key.Judge(test.lock, &test.me, start); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

type judgeTest struct {
	lock *key.Lock
	me   key.Claimant
	want key.Verdict
}

// at is a contender made so many seconds after the start.
func at(seconds int, name string) *key.Contender {
	return &key.Contender{Task: name, UID: "uid-of-" + name, Created: metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))}
}

// policyTests: the claimant "me" was made at second 10.
func policyTests() map[string]judgeTest {
	me := func(policy key.Policy) key.Claimant {
		return key.Claimant{UID: "uid-of-me", Name: "me", Policy: policy, Created: start.Add(10 * time.Second)}
	}
	replay := me(key.PolicyReplace)
	replay.Replays = "dl-1"
	rejectedReplay := me(key.PolicyReject)
	rejectedReplay.Replays = "dl-1"
	lock := func(holder string, newest *key.Contender, letters ...string) *key.Lock {
		return &key.Lock{Kind: key.Concurrency, Holder: holder, Newest: newest, BlockedBy: letters}
	}
	return map[string]judgeTest{
		"Reject, free":                                     {nil, me(key.PolicyReject), key.Free},
		"Reject, mine":                                     {lock("uid-of-me", nil), me(key.PolicyReject), key.Mine},
		"Reject, busy":                                     {lock("other", nil), me(key.PolicyReject), key.Rejected},
		"Reject, blocked":                                  {lock("", nil, "dl-1"), me(key.PolicyReject), key.Rejected},
		"Reject, promised to an older one":                 {lock("", at(5, "old")), me(key.PolicyReject), key.Rejected},
		"Reject, and the idempotency key is busy":          {&key.Lock{Kind: key.Idempotency, Holder: "other"}, me(key.PolicyReject), key.Busy},
		"Reject, a replay, busy":                           {lock("other", nil), rejectedReplay, key.Busy},
		"Reject, a replay of what blocks":                  {lock("", nil, "dl-1"), rejectedReplay, key.Inherited},
		"Replace, free":                                    {nil, me(key.PolicyReplace), key.Free},
		"Replace, busy":                                    {lock("other", nil), me(key.PolicyReplace), key.Replaceable},
		"Replace, blocked":                                 {lock("", nil, "dl-1"), me(key.PolicyReplace), key.Replaceable},
		"Replace, and an older one has asked":              {lock("other", at(5, "old")), me(key.PolicyReplace), key.Replaceable},
		"Replace, and it has asked":                        {lock("other", at(10, "me")), me(key.PolicyReplace), key.Busy},
		"Replace, blocked, and it has asked":               {lock("", at(10, "me"), "dl-1"), me(key.PolicyReplace), key.Blocked},
		"Replace, and it holds the key":                    {lock("uid-of-me", at(10, "me")), me(key.PolicyReplace), key.Mine},
		"Replace, promised to it":                          {lock("", at(10, "me")), me(key.PolicyReplace), key.Free},
		"Replace, promised to an older one":                {lock("", at(5, "old")), me(key.PolicyReplace), key.Free},
		"Replace, promised to a newer one":                 {lock("", at(15, "new")), me(key.PolicyReplace), key.Superseded},
		"Replace, and the idempotency key is busy":         {&key.Lock{Kind: key.Idempotency, Holder: "other"}, me(key.PolicyReplace), key.Busy},
		"Replace, a replay, busy":                          {lock("other", nil), replay, key.Busy},
		"Replace, a replay, promised to an older one":      {lock("", at(5, "old")), replay, key.Busy},
		"Queue, promised to an older one":                  {lock("", at(5, "old")), me(key.PolicyQueue), key.Busy},
		"no policy, busy":                                  {lock("other", nil), me(""), key.Busy},
		"it waits, and a newer one has asked":              {lock("other", at(15, "new")), me(key.PolicyQueue), key.Superseded},
		"it would be rejected, and a newer one has asked":  {lock("other", at(15, "new")), me(key.PolicyReject), key.Superseded},
		"it holds the key, and a newer one has asked":      {lock("uid-of-me", at(15, "new")), me(key.PolicyQueue), key.Superseded},
		"it holds the key, and an older one has asked":     {lock("uid-of-me", at(5, "old")), me(key.PolicyQueue), key.Mine},
		"a newer one holds the key":                        {lock("uid-of-new", at(15, "new")), me(key.PolicyQueue), key.Superseded},
		"blocked, and a newer one waits for that":          {lock("", at(15, "new"), "dl-2"), me(key.PolicyQueue), key.Superseded},
		"within a second the name decides: it is first":    {lock("other", at(10, "a")), me(key.PolicyQueue), key.Busy},
		"within a second the name decides: it is last":     {lock("other", at(10, "z")), me(key.PolicyQueue), key.Superseded},
		"made anew under its name, within a second":        {lock("other", &key.Contender{Task: "me", UID: "uid-z", Created: metav1.NewTime(start.Add(10 * time.Second))}), me(key.PolicyQueue), key.Superseded},
		"a replay holds what it unblocks, and is older":    {lock("uid-of-me", at(15, "new"), "dl-1"), replay, key.Mine},
		"a replay of what blocks is older than the newest": {lock("", at(15, "new"), "dl-1"), replay, key.Inherited},
		"a replay of something else is superseded":         {lock("", at(15, "new"), "dl-2"), replay, key.Superseded},
		"a replay that unblocks nothing is superseded":     {lock("uid-of-me", at(15, "new")), replay, key.Superseded},
	}
}

func TestKeep(t *testing.T) {
	const d = 30 * time.Second
	held := &key.Lock{Holder: "h", Duration: d}
	gone := func(ago time.Duration, hasTerm bool, letters ...string) key.Seen {
		return key.Seen{Task: key.TaskGone, Since: start.Add(-ago), HasTerm: hasTerm, Letters: letters}
	}
	tests := map[string]struct {
		lock *key.Lock
		seen key.Seen
		want key.Keeping
	}{
		"an answer is kept":                          {answerOf("h", "a", 50*time.Second), key.Seen{Task: key.TaskGone}, key.Keeping{Action: key.Leave, After: 10 * time.Second}},
		"until its retention is over":                {answerOf("h", "a", time.Minute), key.Seen{Task: key.TaskUnfinished}, key.Keeping{Action: key.Delete, Ground: key.GroundAnswerExpired}},
		"a holder at work":                           {held, key.Seen{Task: key.TaskUnfinished}, key.Keeping{Action: key.Leave}},
		"a holder that succeeded":                    {held, key.Seen{Task: key.TaskCompleted, Letters: []string{"dl"}}, key.Keeping{Action: key.Delete, Ground: key.GroundFinished}},
		"a holder that was cancelled":                {held, key.Seen{Task: key.TaskEnded}, key.Keeping{Action: key.Delete, Ground: key.GroundFinished}},
		"a holder whose dead letter blocks":          {held, key.Seen{Task: key.TaskEnded, Letters: []string{"dl"}}, key.Keeping{Action: key.BlockIt, Ground: key.GroundFinished}},
		"a holder that is gone, a moment ago":        {held, gone(time.Second, false), key.Keeping{Action: key.Leave, After: d - time.Second}},
		"a holder that is gone, a duration ago":      {held, gone(d, false), key.Keeping{Action: key.Delete, Ground: key.GroundHolderGone}},
		"and left a dead letter that blocks":         {held, gone(d, false, "dl"), key.Keeping{Action: key.BlockIt, Ground: key.GroundHolderGone}},
		"a term that outlives its task, and renews":  {held, gone(d-1, true), key.Keeping{Action: key.Leave, After: 1}},
		"a term that outlives its task, and is dead": {held, gone(d, true), key.Keeping{Action: key.EndTerm, Ground: key.GroundHolderGone}},
		"blocked":            {&key.Lock{BlockedBy: []string{"dl"}}, key.Seen{Task: key.TaskGone, Letters: []string{"dl"}}, key.Keeping{Action: key.Leave}},
		"blocked by nothing": {&key.Lock{BlockedBy: []string{"dl"}}, key.Seen{Task: key.TaskGone}, key.Keeping{Action: key.Delete, Ground: key.GroundUnblocked}},
		"a holder at work, and the newest is gone":                                  {held, key.Seen{Task: key.TaskUnfinished, Next: key.TaskGone}, key.Keeping{Action: key.Leave}},
		"a holder that succeeded, and one asked":                                    {held, key.Seen{Task: key.TaskCompleted, Next: key.TaskUnfinished}, key.Keeping{Action: key.PromiseIt, Ground: key.GroundFinished}},
		"a holder that was superseded":                                              {held, key.Seen{Task: key.TaskEnded, Next: key.TaskUnfinished}, key.Keeping{Action: key.PromiseIt, Ground: key.GroundFinished}},
		"whoever asked has finished meanwhile":                                      {held, key.Seen{Task: key.TaskEnded, Next: key.TaskEnded}, key.Keeping{Action: key.Delete, Ground: key.GroundFinished}},
		"whoever asked is gone":                                                     {held, key.Seen{Task: key.TaskEnded, Next: key.TaskGone}, key.Keeping{Action: key.Delete, Ground: key.GroundFinished}},
		"a dead letter blocks, whoever asked":                                       {held, key.Seen{Task: key.TaskEnded, Next: key.TaskUnfinished, Letters: []string{"dl"}}, key.Keeping{Action: key.BlockIt, Ground: key.GroundFinished}},
		"a holder that is gone, a moment ago, one asked":                            {held, askedAfter(gone(time.Second, false)), key.Keeping{Action: key.Leave, After: d - time.Second}},
		"a holder that is gone, and one asked":                                      {held, askedAfter(gone(d, false)), key.Keeping{Action: key.PromiseIt, Ground: key.GroundHolderGone}},
		"blocked, and one asked":                                                    {&key.Lock{BlockedBy: []string{"dl"}, Newest: at(1, "n")}, key.Seen{Next: key.TaskUnfinished, Letters: []string{"dl"}}, key.Keeping{Action: key.Leave}},
		"unblocked, and one asked":                                                  {&key.Lock{BlockedBy: []string{"dl"}, Newest: at(1, "n")}, key.Seen{Next: key.TaskUnfinished}, key.Keeping{Action: key.PromiseIt, Ground: key.GroundUnblocked}},
		"unblocked, and whoever asked is gone":                                      {&key.Lock{BlockedBy: []string{"dl"}, Newest: at(1, "n")}, key.Seen{Next: key.TaskGone}, key.Keeping{Action: key.Delete, Ground: key.GroundUnblocked}},
		"promised":                                                                  {&key.Lock{Newest: at(1, "n")}, key.Seen{Next: key.TaskUnfinished}, key.Keeping{Action: key.Leave}},
		"promised to one that is gone":                                              {&key.Lock{Newest: at(1, "n")}, key.Seen{Next: key.TaskGone}, key.Keeping{Action: key.Delete, Ground: key.GroundNextGone}},
		"promised to one that was cancelled":                                        {&key.Lock{Newest: at(1, "n")}, key.Seen{Next: key.TaskEnded}, key.Keeping{Action: key.Delete, Ground: key.GroundNextGone}},
		"a Lease edited to a short duration is kept for the shortest that there is": {&key.Lock{Holder: "h", Duration: 1}, gone(9*time.Second, false), key.Keeping{Action: key.Leave, After: time.Second}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := key.Keep(test.lock, &test.seen, start); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func askedAfter(s key.Seen) key.Seen {
	s.Next = key.TaskUnfinished
	return s
}

// TestWhatTheNewestBecomes: what each step makes of who has asked.
func TestWhatTheNewestBecomes(t *testing.T) {
	me := &key.Claimant{UID: "uid-of-me", Name: "me", Policy: key.PolicyReplace, Created: start.Add(10 * time.Second)}
	queues, replay := *me, *me
	queues.Policy, replay.Replays = key.PolicyQueue, "dl-1"
	seen := func(newest *key.Contender) *key.Lock {
		return &key.Lock{UID: "lease", ResourceVersion: "7", Kind: key.Concurrency, Value: "db", Holder: "h", HolderUID: "h", HolderName: "holder", Newest: newest,
			BlockedBy: []string{"dl-1"}, BlocksWhenDead: true, Duration: 30 * time.Second, TakenAt: start}
	}
	take := func(l *key.Lock, by *key.Claimant) *key.Lock { return key.Take(l, key.Concurrency, "db", by, start) }
	own := seen(at(10, "h"))
	own.HolderUID = "uid-of-h"
	tests := map[string]struct {
		got  *key.Lock
		want string
	}{
		"asked":                           {key.Ask(seen(nil), me), "me"},
		"asked again":                     {key.Ask(seen(at(5, "old")), me), "me"},
		"taken":                           {take(nil, me), "me"},
		"taken from an older one":         {take(seen(at(5, "old")), me), "me"},
		"taken by one that queues":        {take(nil, &queues), ""},
		"taken by a replay":               {take(seen(at(15, "new")), &replay), "new"},
		"taken by a replay that is newer": {take(seen(at(5, "old")), &replay), "old"},
		"blocked":                         {key.Block(seen(at(15, "new")), []string{"dl-2"}), "new"},
		"blocked by its own end":          {key.Block(own, []string{"dl-2"}), ""},
		"promised":                        {key.Promise(seen(at(15, "new"))), "new"},
		"an idempotency key":              {key.Take(nil, key.Idempotency, "db", me, start), ""},
	}
	for name, test := range tests {
		got, isWritten := "", key.Read(test.got.Lease("ns"))
		if isWritten.Newest != nil {
			got = isWritten.Newest.Task
		}
		if got != test.want {
			t.Errorf("%s: the newest is %q, want %q", name, got, test.want)
		}
	}
	promised, asked := key.Promise(seen(at(15, "new"))), key.Ask(seen(nil), me)
	if promised.Holder != "" || len(promised.BlockedBy) > 0 || promised.BlocksWhenDead || promised.HolderName != "holder" || promised.ResourceVersion != "7" {
		t.Errorf("promised: %+v", promised)
	}
	if asked.Holder != "h" || len(asked.BlockedBy) != 1 || !asked.BlocksWhenDead || asked.ResourceVersion != "7" {
		t.Errorf("asked: %+v", asked)
	}
	spoilt := asked.Lease("ns")
	for _, text := range []string{"{", `{"task":"t"}`, `{"uid":"u"}`} {
		if spoilt.Annotations[key.NewestAnnotation] = text; key.Read(spoilt).Newest != nil {
			t.Errorf("%s is read", text)
		}
	}
}
