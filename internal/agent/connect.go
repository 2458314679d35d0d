package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// connectPatience bounds the making of a connection, TLS handshake included. An agent whose Pod was told to stop has 5 s to submit,
// and a dead endpoint must not take them all. Where a request may take less, it ends alone, and the next one finds the connection.
const connectPatience = 2 * time.Second

// connector makes the connections to the API server.
type connector struct {
	caPath string
	roots  atomic.Pointer[x509.CertPool] // who may vouch for the server
}

func newConnector(caPath string) (*connector, error) {
	roots, err := readRoots(caPath)
	if err != nil {
		return nil, err
	}
	c := &connector{caPath: caPath}
	c.roots.Store(roots)
	return c, nil
}

// connect makes one connection. A server that is not vouched for may be one whose authority was replaced: the file is read
// again, and if it names others by now, they are asked from now on.
func (c *connector) connect(ctx context.Context, network, address string) (net.Conn, error) {
	known := c.roots.Load()
	conn, err := dial(ctx, network, address, known)
	if unverified := (*tls.CertificateVerificationError)(nil); !errors.As(err, &unverified) {
		return conn, err
	}
	mounted, readErr := readRoots(c.caPath)
	if readErr != nil {
		return nil, errors.Join(err, readErr)
	}
	if mounted.Equal(known) {
		return nil, err
	}
	c.roots.Store(mounted)
	return dial(ctx, network, address, mounted)
}

func dial(ctx context.Context, network, address string, roots *x509.CertPool) (net.Conn, error) {
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: connectPatience}, // bounds the handshake, too
		Config:    &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}
	return dialer.DialContext(ctx, network, address)
}

func readRoots(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the API server's certificate authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return roots, nil
}
