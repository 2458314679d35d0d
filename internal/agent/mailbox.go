package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// Mailbox is the agent's end of a term Lease: one method for each write of the protocol. Each is one try, and has an answer
// within the deadline of its context.
type Mailbox interface {
	// Claim tests that nobody has claimed.
	Claim(ctx context.Context, now time.Time) Reply
	// Renew tests that this process has claimed, and carries what the command has said meanwhile. It is also the repeat of a
	// claim whose answer was lost.
	Renew(ctx context.Context, now time.Time, note fencing.Note) Reply
	// Submit ends the term. An identical repeat is accepted.
	Submit(ctx context.Context, encoded []byte, note fencing.Note) Reply
}

// Reply is what one try came to.
type Reply struct {
	Answer fencing.Answer
	Code   int           // HTTP status; 0: there was no answer
	Heard  fencing.Heard // what the Lease says to the holder, with an accepted claim or renewal
	Unread bool          // it was accepted, and the Lease that answers it could not be read
	Detail string        // for the log; never content of the Lease
}

// IsDenied reports whether a role or a policy refused the request.
func (r Reply) IsDenied() bool { return r.Code == http.StatusForbidden }

// maxAnswerBytes bounds what is read of an answer. A Lease is under 300 KiB: etcd and the limit on annotations see to that.
const maxAnswerBytes = 1 << 20

// maxTokenBytes bounds the token file.
const maxTokenBytes = 64 << 10

// LeaseMailbox is the mailbox at the API server.
type LeaseMailbox struct {
	url       string
	tokenPath string
	holder    string
	claim     fencing.Claim
	transport *http.Transport
}

// NewLeaseMailbox makes the mailbox of the process named by claim on the Lease that cfg names.
func NewLeaseMailbox(cfg Config, claim fencing.Claim) (*LeaseMailbox, error) {
	connector, err := newConnector(cfg.CAPath)
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // with HTTP/2, a retry would wait on the connection that has just failed
	return &LeaseMailbox{
		url:       cfg.leaseURL(),
		tokenPath: cfg.TokenPath,
		holder:    cfg.PodName,
		claim:     claim,
		transport: &http.Transport{ // no proxy: the variables that name one are the command's
			DialTLSContext:  connector.connect,
			Protocols:       protocols,
			MaxIdleConns:    1,
			ReadBufferSize:  4 << 10,
			WriteBufferSize: 4 << 10,
		},
	}, nil
}

// Claim implements [Mailbox].
func (m *LeaseMailbox) Claim(ctx context.Context, now time.Time) Reply {
	return m.patch(ctx, fencing.ClaimPatch(m.holder, m.claim, now))
}

// Renew implements [Mailbox].
func (m *LeaseMailbox) Renew(ctx context.Context, now time.Time, note fencing.Note) Reply {
	return m.patch(ctx, note.RenewPatch(m.holder, m.claim, now))
}

// Submit implements [Mailbox].
func (m *LeaseMailbox) Submit(ctx context.Context, encoded []byte, note fencing.Note) Reply {
	return m.patch(ctx, note.SubmitPatch(m.holder, m.claim, encoded))
}

// patch is one try. A 401 may mean that the kubelet has just written a new token, so it is read again, once. After any
// failure the next try gets a new connection.
func (m *LeaseMailbox) patch(ctx context.Context, body []byte) Reply {
	reply := m.send(ctx, body)
	if reply.Answer == fencing.Unauthorized {
		reply = m.send(ctx, body)
	}
	if reply.Answer == fencing.Unauthorized {
		reply.Answer = fencing.Unavailable
	}
	if reply.Answer == fencing.Unavailable {
		m.transport.CloseIdleConnections()
	}
	return reply
}

// send makes one request. It goes through the transport, not a client: a redirect must not carry the token elsewhere.
func (m *LeaseMailbox) send(ctx context.Context, body []byte) Reply {
	token, err := readBounded(m.tokenPath, maxTokenBytes)
	if err != nil {
		return unavailable(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, m.url, bytes.NewReader(body))
	if err != nil {
		return unavailable(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", "application/json-patch+json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "leasehold-agent")
	response, err := m.transport.RoundTrip(request)
	if err != nil {
		return unavailable(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read, or does not matter
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if accepted := response.StatusCode >= 200 && response.StatusCode < 300; err != nil && !accepted {
		return unavailable(err) // a 422 cannot be told from another without its body
	}
	reply := Reply{Answer: fencing.Classify(response.StatusCode, content), Code: response.StatusCode, Detail: response.Status}
	if reply.Answer == fencing.Accepted {
		reply.Heard, reply.Unread = fencing.HeardIn(content), err != nil
	}
	return reply
}

func unavailable(err error) Reply {
	return Reply{Answer: fencing.Unavailable, Detail: err.Error()}
}

// readBounded reads a small file that somebody else writes.
func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(content)) > limit:
		return nil, errors.New(path + " is too large")
	}
	return content, nil
}
