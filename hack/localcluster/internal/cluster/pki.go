package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// authority signs the cluster's certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  time.Time
}

const (
	certLifetime  = 365 * 24 * time.Hour
	clockSkew     = time.Hour
	certBlock     = "CERTIFICATE"
	keyBlock      = "PRIVATE KEY"
	publicBlock   = "PUBLIC KEY"
	serialNumbers = 1 << 62
)

// frontProxy is the API server's name when it passes requests on to an aggregated API server.
const frontProxy = "front-proxy-client"

// writePKI makes fresh authorities, all certificates and the service account key.
func (l Layout) writePKI(now time.Time) error {
	certs := map[string]x509.Certificate{
		"apiserver": serving("kube-apiserver", []string{hostAddress, serviceIP, "127.0.0.1"},
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
		"kubelet-client": clientCert("kube-apiserver-kubelet-client", "system:masters"),
	}
	for _, n := range l.Nodes {
		certs[n.Name+"-kubelet"] = serving("system:node:"+n.Name, []string{n.Address()}, n.Name)
	}
	if err := l.writeAuthority("ca", now, certs); err != nil {
		return err
	}
	err := l.writeAuthority("front-proxy-ca", now, map[string]x509.Certificate{frontProxy: clientCert(frontProxy)})
	if err != nil {
		return err
	}
	return l.writeServiceAccountKey()
}

// writeAuthority makes an authority and the certificates that it signs.
func (l Layout) writeAuthority(name string, now time.Time, certs map[string]x509.Certificate) error {
	ca, err := newAuthority(name, now)
	if err != nil {
		return err
	}
	if err := l.writePair(name, ca.cert.Raw, ca.key); err != nil {
		return err
	}
	for name, template := range certs {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return fmt.Errorf("generate key of %s: %w", name, err)
		}
		cert, err := ca.issue(template, key.Public())
		if err != nil {
			return fmt.Errorf("issue certificate %s: %w", name, err)
		}
		if err := l.writePair(name, cert, key); err != nil {
			return err
		}
	}
	return nil
}

func clientCert(commonName string, groups ...string) x509.Certificate {
	return x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func serving(commonName string, ips []string, names ...string) x509.Certificate {
	cert := x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName},
		DNSNames:    names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, ip := range ips {
		cert.IPAddresses = append(cert.IPAddresses, net.ParseIP(ip))
	}
	return cert
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "leasehold-localcluster-" + name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certLifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse authority: %w", err)
	}
	return &authority{cert: cert, key: key, now: now}, nil
}

func (a *authority) issue(template x509.Certificate, public crypto.PublicKey) (der []byte, err error) {
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(serialNumbers))
	if err != nil {
		return nil, err
	}
	template.NotBefore, template.NotAfter = a.now.Add(-clockSkew), a.now.Add(certLifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return x509.CreateCertificate(rand.Reader, &template, a.cert, public, a.key)
}

func (l Layout) writePair(name string, cert []byte, key *ecdsa.PrivateKey) error {
	if err := writePEM(l.pkiFile(name+".crt"), certBlock, cert); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", name, err)
	}
	return writePEM(l.pkiFile(name+".key"), keyBlock, der)
}

func (l Layout) writeServiceAccountKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate service account key: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	if err := writePEM(l.pkiFile("sa.key"), keyBlock, private); err != nil {
		return err
	}
	return writePEM(l.pkiFile("sa.pub"), publicBlock, public)
}

func writePEM(path, block string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der}), 0o600)
}
