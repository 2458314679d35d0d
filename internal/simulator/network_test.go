package simulator

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// network carries requests to the API server and answers back. Each takes its own time, so they overtake one another.
type network struct {
	*world
	slowest  time.Duration // of the ways that are not slow
	messages []message
	// recent are requests of workers that have been made; what the network keeps of one may arrive again.
	recent []func() reply
	// hasDoubled: some request arrived twice.
	hasDoubled bool
}

type message struct {
	at      time.Duration
	deliver func()
}

// reply is what a worker learns of a request.
type reply struct {
	answer   fencing.Answer
	isDenied bool
	stop     *fencing.Stop // that the Lease bears, in an accepted answer
}

func (n *network) later(d time.Duration, deliver func()) {
	n.messages = append(n.messages, message{n.now + d, deliver})
}

func (n *network) next() (index int, at time.Duration) {
	at = never
	for i := range n.messages {
		if n.messages[i].at < at {
			index, at = i, n.messages[i].at
		}
	}
	return index, at
}

func (n *network) due() time.Duration {
	_, at := n.next()
	return at
}

func (n *network) act() {
	i, _ := n.next()
	m := n.messages[i]
	n.messages = append(n.messages[:i], n.messages[i+1:]...)
	m.deliver()
}

// leg is how long one way takes.
func (n *network) leg(isSlow bool) time.Duration {
	if isSlow {
		return n.upTo(50*time.Millisecond, 1200*time.Millisecond)
	}
	return n.upTo(0, n.slowest)
}

func (n *network) loses() bool { return n.weather.isLossy && n.oneIn(4) }

// carry sends a worker's request, and the answer back to it. A request that arrives twice is answered once; what the sender
// does not hear of may have taken effect all the same, and may do so much later.
func (n *network) carry(from *node, request func() reply, heard func(reply)) {
	if from.isCutOut || n.loses() {
		return
	}
	n.recent = append(n.recent, request)
	way := n.leg(n.weather.isSlow)
	if n.weather.isLossy && n.oneIn(6) {
		way += n.upTo(0, 20*time.Second)
	}
	n.later(way, func() { n.answer(from, request, heard) })
	if n.weather.isLossy && n.oneIn(6) {
		n.later(way+n.upTo(0, 20*time.Second), func() {
			if !n.weather.isDown {
				n.hasDoubled = true
				request()
			}
		})
	}
}

// repeat lets one of the last requests arrive once more.
func (n *network) repeat() {
	if old := n.recent[max(0, len(n.recent)-6):]; len(old) > 0 && !n.weather.isDown {
		n.note("an old request arrives again")
		n.hasDoubled = true
		old[n.random.IntN(len(old))]()
	}
}

func (n *network) answer(from *node, request func() reply, heard func(reply)) {
	r := reply{answer: fencing.Unavailable}
	if !n.weather.isDown {
		r = request()
	}
	if n.loses() {
		return
	}
	if n.weather.isLossy && n.oneIn(8) {
		r = reply{answer: fencing.Unavailable} // the API server gave up, etcd did not
	}
	n.later(n.leg(n.weather.isSlow || n.weather.isLossy && n.oneIn(3)), func() {
		if !from.isCutIn {
			heard(r)
		}
	})
}
