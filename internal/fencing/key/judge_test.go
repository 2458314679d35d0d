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
	tests := map[string]struct {
		lock *key.Lock
		me   key.Claimant
		want key.Verdict
	}{
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
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := key.Judge(test.lock, &test.me, start); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
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
