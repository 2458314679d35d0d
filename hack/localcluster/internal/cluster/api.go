package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// client asks the cluster's HTTP servers. It is deliberately not client-go: this program needs four GETs, and compiles in seconds without.
type client struct {
	http  *http.Client
	token string
}

const requestTimeout = 5 * time.Second

func (l Layout) client() (*client, error) {
	ca, err := os.ReadFile(l.pkiFile("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read authority: %w", err)
	}
	token, err := os.ReadFile(l.adminToken())
	if err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the authority's file holds no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	return &client{http: &http.Client{Timeout: requestTimeout, Transport: transport}, token: string(token)}, nil
}

// insecureClient is for health endpoints with self-signed certificates; it sends no token.
func insecureClient() *client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // only health endpoints, no secret is sent
	return &client{http: &http.Client{Timeout: requestTimeout, Transport: transport}}
}

// get succeeds with status 200 only and decodes the answer when into is not nil.
func (c *client) get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s%s", url, response.Status, failures(string(body)))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// failures shortens a health endpoint's answer to its failed checks; other answers are left out, the status says enough.
func failures(body string) string {
	var failed []string
	for line := range strings.Lines(body) {
		if name, found := strings.CutPrefix(line, "[-]"); found {
			name, _, _ = strings.Cut(name, " ")
			failed = append(failed, name)
		}
	}
	const most = 3
	switch {
	case len(failed) == 0:
		return ""
	case len(failed) > most:
		return fmt.Sprintf(" (%s and %d more)", strings.Join(failed[:most], ", "), len(failed)-most)
	}
	return fmt.Sprintf(" (%s)", strings.Join(failed, ", "))
}

// nodeReady returns an error that says why the node is not Ready.
func (c *client) nodeReady(ctx context.Context, n Node) error {
	var node struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	if err := c.get(ctx, apiServer+"/api/v1/nodes/"+n.Name, &node); err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != "Ready" {
			continue
		}
		if condition.Status == "True" {
			return nil
		}
		return fmt.Errorf("condition Ready is %s: %s: %s", condition.Status, condition.Reason, condition.Message)
	}
	return errors.New("it has no Ready condition yet")
}
