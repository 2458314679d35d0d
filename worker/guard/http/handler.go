package httpguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// What the proxy says in its answers.
const (
	MarkHeader     = "Fencing-Mark"     // of a refused request: the mark
	OutcomeHeader  = "Fencing-Outcome"  // answered, uncertain, or refused
	PreviousHeader = "Fencing-Previous" // uncertain: an earlier request for the resource got no answer, and may still take effect

	outcomeAnswered  = "answered"
	outcomeUncertain = "uncertain"
	outcomeRefused   = "refused" // the upstream has seen nothing of it
)

// Config is what a handler needs. Upstream, Ledger and Keys are required.
type Config struct {
	Upstream *url.URL
	Ledger   *Ledger
	Keys     []Key
	// Resource names what a request writes to. Default: the path, without a slash at its end. Requests that touch the same thing must get the same name.
	Resource func(*http.Request) string
	// Timeout is how long the upstream may take, and so how long one request holds its resource. Default: 30 s.
	Timeout time.Duration
	// Wait is how long a request waits for its resource. Default: 10 s.
	Wait      time.Duration
	Transport http.RoundTripper // to the upstream
	Logger    *slog.Logger
	Now       func() time.Time
}

// Handler is the reverse proxy.
type Handler struct {
	config Config
	proxy  *httputil.ReverseProxy
}

// New makes the handler.
func New(config Config) (*Handler, error) {
	if config.Upstream == nil || config.Ledger == nil || len(config.Keys) == 0 {
		return nil, errors.New("upstream, ledger and at least one key are needed")
	}
	for _, key := range config.Keys {
		if err := key.check(); err != nil {
			return nil, err
		}
	}
	if config.Resource == nil {
		config.Resource = func(r *http.Request) string { return path.Clean(r.URL.Path) }
	}
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	if config.Wait == 0 {
		config.Wait = 10 * time.Second
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Now == nil {
		config.Now = time.Now //nolint:forbidigo // the default of an injected clock
	}
	h := &Handler{config: config}
	h.proxy = &httputil.ReverseProxy{Rewrite: h.rewrite, Transport: config.Transport, ModifyResponse: answered, ErrorHandler: h.unanswered}
	return h, nil
}

// passage follows one guarded request through the proxy.
type passage struct {
	before   Entry
	answered bool
}

// tell puts what the guard says into an answer. (In the header of the writer it would not survive an informational answer of the upstream.)
func (p *passage) tell(header http.Header) {
	outcome := outcomeAnswered
	if !p.answered {
		outcome = outcomeUncertain
	}
	header.Del(MarkHeader)
	header.Del(PreviousHeader)
	header.Set(OutcomeHeader, outcome)
	if p.before.Uncertain {
		header.Set(PreviousHeader, outcomeUncertain)
	}
}

type passageKey struct{}

// ServeHTTP checks, holds the resource, and forwards.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A path in another form would be another resource to us and the same to the upstream.
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path || r.URL.RawPath != "" || r.Header.Get("Upgrade") != "" {
		refuse(w, http.StatusBadRequest, "the path is not in its plain form, or the request asks for another protocol")
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		h.proxy.ServeHTTP(w, r)
		return
	}
	resource := h.config.Resource(r)
	header := r.Header.Get(TokenHeader)
	if header == "" {
		refuse(w, http.StatusPreconditionRequired, "a "+TokenHeader+" header is needed to write here")
		return
	}
	token, err := verify(h.config.Keys, header, resource, h.config.Now())
	if err == nil {
		err = guard.Validate(resource, token)
	}
	if err != nil {
		refuse(w, http.StatusUnauthorized, err.Error())
		return
	}
	h.forward(w, r, resource, token)
}

func (h *Handler) forward(w http.ResponseWriter, r *http.Request, resource string, token guard.Token) {
	waiting, cancel := context.WithTimeout(r.Context(), h.config.Wait)
	defer cancel()
	before, end, err := h.config.Ledger.begin(waiting, resource, token)
	if stale, is := errors.AsType[*guard.StaleError](err); is {
		h.config.Logger.Info("Refused a stale write", "resource", resource, "token", token, "mark", stale.Mark)
		w.Header().Set(MarkHeader, stale.Mark.String())
		refuse(w, http.StatusPreconditionFailed, err.Error())
		return
	}
	if err != nil {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("cannot hold the resource: %v", err))
		return
	}
	p := &passage{before: before}
	defer func() { // also when the proxy gives up in the middle of an answer
		if err := end(p.answered); err != nil {
			h.config.Logger.Error("Cannot record an answer", "resource", resource, "err", err)
		}
	}()
	// A worker that goes away does not free the resource: its request is with the upstream.
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), h.config.Timeout)
	defer stop()
	defer limit(ctx, w)()
	h.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, passageKey{}, p)))
}

// parting is the time to tell the worker that there was no answer.
const parting = time.Second

// limit ends the exchange with the worker with ctx: one that is frozen would hold its resource for as long as it does not send or read.
func limit(ctx context.Context, w http.ResponseWriter) (lift func()) {
	conn := http.NewResponseController(w)
	end, _ := ctx.Deadline()
	_ = conn.SetReadDeadline(end) // a writer that has no deadlines has no connection
	_ = conn.SetWriteDeadline(end.Add(parting))
	return func() { _ = conn.SetWriteDeadline(time.Time{}) } // the other is set anew for each request
}

func (h *Handler) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(h.config.Upstream)
	r.SetXForwarded()
	for _, name := range []string{TokenHeader, "X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		r.Out.Header.Del(name) // a GET stays one
	}
	sendOnce(r.Out.Header)
}

// answered looks at the upstream's answer.
func answered(answer *http.Response) error {
	p, guarded := answer.Request.Context().Value(passageKey{}).(*passage)
	if !guarded {
		return nil
	}
	p.answered = !mayBeGateways(answer.StatusCode)
	p.tell(answer.Header)
	return nil
}

// mayBeGateways is true for an answer that may come from a gateway between here and the service: a load balancer, the proxy of a service mesh.
// It gives these also after it has sent the request on and lost it, and nothing in them says which it was.
func mayBeGateways(status int) bool {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status >= firstUnregistered
}

// firstUnregistered is where the status codes begin that no standard has, and some gateways use: 520 to 530, 598, 599.
const firstUnregistered = 520

// unanswered is called when the upstream could not be reached or did not answer.
func (h *Handler) unanswered(w http.ResponseWriter, r *http.Request, err error) {
	p, guarded := r.Context().Value(passageKey{}).(*passage)
	if dial, is := errors.AsType[*net.OpError](err); is && dial.Op == "dial" {
		if guarded {
			p.answered = !p.before.Uncertain // nothing was sent, so nothing becomes uncertain, or certain
			p.tell(w.Header())
		}
		refuse(w, http.StatusBadGateway, "the upstream cannot be reached")
		return
	}
	status := http.StatusBadGateway
	if errors.Is(err, context.DeadlineExceeded) {
		status = http.StatusGatewayTimeout
	}
	if guarded {
		h.config.Logger.Warn("A guarded write got no answer", "path", r.URL.Path, "err", err)
		p.answered = false // what came was none: a switch of protocols, say
		p.tell(w.Header())
	}
	http.Error(w, "the upstream did not answer", status)
}

// refuse ends a request that the upstream has seen nothing of.
func refuse(w http.ResponseWriter, status int, message string) {
	w.Header().Set(OutcomeHeader, outcomeRefused)
	http.Error(w, message, status)
}
