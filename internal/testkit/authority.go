package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Authority signs certificates for tests.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns a new authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(2 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	Must(t, err)
	a.cert, err = x509.ParseCertificate(der)
	Must(t, err)
	return a
}

// PEM returns the certificate of the authority.
func (a *Authority) PEM() []byte { return encode("CERTIFICATE", a.cert.Raw) }

// Pool returns a pool that trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Sign returns a certificate for names, valid for a duration from now on, and its key. Servers and
// clients can use it.
func (a *Authority) Sign(t testing.TB, good time.Duration, names ...string) (cert, key []byte) {
	t.Helper()
	own := newKey(t)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	Must(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(good),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	Must(t, err)
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret)
}

// Pair is Sign for an hour, with a result for package tls.
func (a *Authority) Pair(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Sign(t, time.Hour, names...))
	Must(t, err)
	return pair
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	return key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
