package checker

import "time"

// moveKind is what a write did to a term.
type moveKind string

const (
	grant  moveKind = "grant"
	claim  moveKind = "claim"
	renew  moveKind = "renewal"
	submit moveKind = "submission"
	revoke moveKind = "revoke"
	erase  moveKind = "erasure"
)

// move is one step of a term. One write can make several.
type move struct {
	kind          moveKind
	before, after state
	rv            int64
	received      time.Time // when the API server got the request
	done          time.Time // when it had answered
	by            author
	// isHidden: no request on record made it, only its effect was seen. Author and time are not known.
	isHidden bool
	// isBlind: something unknown was written just before.
	isBlind bool
}

// term is one grant on one Lease, up to the next grant.
type term struct {
	task     string // UID
	lease    string // UID
	attempt  int64
	holder   string
	duration time.Duration
	moves    []move
	deleted  time.Time // of the Lease
}

func (t *term) grant() *move { return &t.moves[0] }

func (t *term) of(kind moveKind) (found []*move) {
	for i := range t.moves {
		if t.moves[i].kind == kind {
			found = append(found, &t.moves[i])
		}
	}
	return found
}

// first is the first move of a kind, nil if there is none.
func (t *term) first(kind moveKind) *move {
	if all := t.of(kind); len(all) > 0 {
		return all[0]
	}
	return nil
}

func (t *term) hasToken(token int64) bool {
	return t.grant().rv == lowBits(token) && !t.grant().isHidden
}

// steps takes a change of a Lease apart.
func steps(before, after state) (moves []move) {
	now := before
	add := func(kind moveKind, change func(*state)) {
		m := move{kind: kind, before: now}
		change(&now)
		m.after = now
		moves = append(moves, m)
	}
	if after.holder != "" && after.holder != before.holder {
		add(grant, func(s *state) { *s = state{holder: after.holder} })
	}
	claimed := after.claim != "" && after.claim != now.claim
	if claimed {
		add(claim, func(s *state) { s.claim, s.renewed = after.claim, after.renewed })
	}
	if now.renewed != after.renewed {
		add(renew, func(s *state) { s.renewed = after.renewed })
	}
	if after.submission != "" && after.submission != now.submission {
		add(submit, func(s *state) { s.submission = after.submission })
	}
	if after.claim == "" && now.claim != "" || after.submission == "" && now.submission != "" {
		add(erase, func(s *state) { s.claim, s.submission = after.claim, after.submission })
	}
	if after.holder == "" && now.holder != "" {
		add(revoke, func(s *state) { s.holder = "" })
	}
	return moves
}
