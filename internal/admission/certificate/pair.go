package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// pair is a serving certificate with its key, and the authority that vouches for it.
type pair struct {
	serving   *tls.Certificate
	authority []byte // PEM; empty if the chain does not contain it
}

// parse reads a chain, the serving certificate first, and a key.
func parse(chain, key []byte) (*pair, error) {
	serving, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, err
	}
	if serving.Leaf == nil {
		return nil, errors.New("the certificate cannot be read")
	}
	p := &pair{serving: &serving}
	if n := len(serving.Certificate); n > 1 {
		p.authority = encode(serving.Certificate[n-1])
	}
	return p, nil
}

// isDue reports whether a certificate is to be renewed: nobody accepts it now, it has less than that left, or it is not for all of
// the names.
func (p *pair) isDue(names []string, left time.Duration, now time.Time) bool {
	for _, name := range names {
		if p.serving.Leaf.VerifyHostname(name) != nil {
			return true
		}
	}
	return len(p.authority) == 0 || !p.isValid(now) || p.serving.Leaf.NotAfter.Sub(now) < left
}

func (p *pair) is(other *pair) bool { return other != nil && p.serving.Leaf.Equal(other.serving.Leaf) }

func (p *pair) isValid(now time.Time) bool { return p != nil && isValid(p.serving.Leaf, now) }

// isValid reports whether it is a certificate's time. One that was made where a clock is ahead has yet to come.
func isValid(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

// backdated is how long before its making a certificate of client-go's begins, so that clocks need not agree.
const backdated = time.Hour

// generate makes a certificate for the names, of which the first may be an IP address.
func generate(names []string, lifetime time.Duration) (chain, key []byte, err error) {
	return certutil.GenerateSelfSignedCertKeyWithOptions(certutil.SelfSignedCertKeyOptions{
		Host: names[0], AlternateDNS: names[1:], MaxAge: lifetime + backdated,
	})
}

// bundle is the list of those to trust from now on: the authority, and of the others the first that is valid, under which other
// replicas may serve for a while. Those before it that are not valid yet stay: it may be this clock that is behind.
func bundle(authority, trusted []byte, now time.Time) []byte {
	list := bytes.Clone(authority)
	for rest := trusted; len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break // nothing that we have written
		}
		other, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !now.Before(other.NotAfter) {
			continue
		}
		list = append(list, encode(block.Bytes)...)
		if isValid(other, now) {
			break
		}
	}
	return list
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}
