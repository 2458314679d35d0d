package cloudevents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

// Config is what the sink needs.
type Config struct {
	// URL gets the POST requests. http or https. Required.
	URL string
	// Header is added to each request, such as Authorization. Names that begin with ce- are refused.
	Header http.Header
	// Client makes the requests; redirects are never followed. Default: one that keeps as many connections as are needed at once.
	Client *http.Client
}

// Sink is an [outbox.Sink].
type Sink struct {
	url    string
	header http.Header
	client *http.Client
}

// New checks the configuration.
func New(c Config) (*Sink, error) {
	target, err := url.Parse(c.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, errors.New("cloudevents: the URL is not one of http or https") // it may hold a password, so it is not quoted
	}
	for name := range c.Header {
		if strings.HasPrefix(strings.ToLower(name), "ce-") || strings.EqualFold(name, "Content-Type") {
			return nil, fmt.Errorf("cloudevents: header %s is the event's own", name)
		}
	}
	client := http.Client{}
	if c.Client != nil {
		client = *c.Client
	} else {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = transport.MaxIdleConns
		client.Transport = transport
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Sink{url: c.URL, header: c.Header.Clone(), client: &client}, nil
}

// maxAnswer is how much of an answer is read, so that its connection can be used again.
const maxAnswer = 64 << 10

// Deliver posts the event.
func (s *Sink) Deliver(ctx context.Context, e outbox.Event) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(e.Data))
	if err != nil {
		return err
	}
	for name, values := range s.header {
		request.Header[name] = values
	}
	for name, value := range Attributes(e) {
		request.Header.Set("ce-"+name, Encode(value))
	}
	request.Header.Set("Content-Type", e.DataContentType)
	response, err := s.client.Do(request)
	if err != nil {
		var detail *url.Error
		if errors.As(err, &detail) {
			err = detail.Err // without the URL
		}
		return outbox.Unavailable(err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer))
	_ = response.Body.Close()
	return judge(response.StatusCode)
}

// judge never quotes the answer's body, which may repeat what is secret.
func judge(status int) error {
	err := fmt.Errorf("the receiver answers %d %s", status, http.StatusText(status))
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge:
		return outbox.Rejected(err)
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusProxyAuthRequired, http.StatusGone:
		return outbox.Unavailable(err)
	}
	switch status / 100 {
	case 2:
		return nil
	case 3:
		return outbox.Unavailable(err)
	default:
		return err
	}
}

// Attributes are the CloudEvents attributes of an event but datacontenttype, by name. Extensions cannot replace the others.
func Attributes(e outbox.Event) map[string]string {
	attributes := map[string]string{}
	for name, value := range e.Extensions {
		attributes[name] = value
	}
	attributes["specversion"], attributes["id"], attributes["source"], attributes["type"] = "1.0", e.ID, e.Source, e.Type
	attributes["time"] = e.Time.UTC().Format(time.RFC3339Nano)
	attributes["partitionkey"], attributes["sequence"] = e.Key, fmt.Sprintf("%020d", e.Sequence)
	delete(attributes, "subject")
	if e.Subject != "" {
		attributes["subject"] = e.Subject
	}
	return attributes
}

// Encode is the percent-encoding of header values in section 3.1.3.2 of the HTTP binding: spaces, double quotes, percent signs
// and what is not printable ASCII.
func Encode(value string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c > ' ' && c < 0x7f && c != '"' && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}
