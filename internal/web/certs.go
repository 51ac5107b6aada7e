package web

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"stint/internal/text"
)

// CertFiles are the files of a server's certificate, and of the authorities of its clients.
type CertFiles struct {
	// Cert is the certificate with the intermediate ones, Key its private key, both as PEM.
	Cert, Key string

	// ClientCA has the certificates, as PEM, of the authorities for client certificates; "":
	// clients need no certificate.
	ClientCA string

	// ClientName is the DNS name that a client's certificate must have; "": any name.
	ClientName string
}

// Given reports whether there is a certificate. Without one, connections are not encrypted.
func (f *CertFiles) Given() bool { return f.Cert != "" }

// Check returns the first problem of the combination of files, and the option that has it: cert,
// key, client-ca or client-name. It returns "" if there is no problem.
func (f *CertFiles) Check() (which, problem string) {
	switch {
	case f.Cert == "" && f.Key != "":
		return "key", "a key without a certificate"
	case f.Cert != "" && f.Key == "":
		return "cert", "a certificate without its key"
	case f.ClientCA != "" && f.Cert == "":
		return "client-ca", "clients cannot be asked for certificates without encryption"
	case f.ClientName != "" && f.ClientCA == "":
		return "client-name", "clients are not asked for certificates"
	}
	return "", ""
}

// Which returns the option of the file with that name, like Check.
func (f *CertFiles) Which(name string) string {
	switch name {
	case f.Cert:
		return "cert"
	case f.Key:
		return "key"
	}
	return "client-ca"
}

// CertError is a problem of one of the files.
type CertError struct {
	File    string
	Problem string
	Hint    string
	Err     error // the cause; may be nil
}

// Error returns the file and the problem, without the hint.
func (e *CertError) Error() string { return e.File + ": " + e.Problem }

// Unwrap returns the cause.
func (e *CertError) Unwrap() error { return e.Err }

// Certs has the contents of the files after the last successful load. It is safe for concurrent
// use: each connection uses either the old contents or the new ones.
type Certs struct {
	files    CertFiles
	protocol string
	current  atomic.Pointer[contents]
}

type contents struct {
	bytes  [3][]byte
	config *tls.Config
	expiry time.Time
}

// LoadCerts reads the files for a server of a protocol, "h2" or "http/1.1". Errors are
// [*CertError].
func LoadCerts(files CertFiles, protocol string) (*Certs, error) {
	c := &Certs{files: files, protocol: protocol}
	_, err := c.Reload()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again and reports whether they have changed. On an error the previous
// contents stay.
func (c *Certs) Reload() (changed bool, err error) {
	next := new(contents)
	for i, name := range c.Paths() {
		if next.bytes[i], err = os.ReadFile(name); err != nil {
			return false, &CertError{name, "cannot read it: " + text.Cause(err), "check the path and its permissions", err}
		}
	}
	if before := c.current.Load(); before != nil {
		same := true
		for i := range next.bytes {
			same = same && bytes.Equal(next.bytes[i], before.bytes[i])
		}
		if same {
			return false, nil
		}
	}
	if err := next.compile(&c.files, c.protocol); err != nil {
		return false, err
	}
	c.current.Store(next)
	return true, nil
}

// compile parses the bytes of the files for handshakes.
func (n *contents) compile(f *CertFiles, protocol string) error {
	pair, err := tls.X509KeyPair(n.bytes[0], n.bytes[1])
	if err != nil {
		return &CertError{f.Cert, "not a certificate with the key " + f.Key + ": " + err.Error(), "name a certificate and its own private key, both as PEM", err}
	}
	if n.expiry = pair.Leaf.NotAfter; time.Now().After(n.expiry) {
		return &CertError{f.Cert, "the certificate has expired on " + n.expiry.UTC().Format(time.DateOnly), "renew it", nil}
	}
	n.config = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{protocol}}
	if f.ClientCA == "" {
		return nil
	}
	n.config.ClientAuth, n.config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !n.config.ClientCAs.AppendCertsFromPEM(n.bytes[2]) {
		return &CertError{f.ClientCA, "no certificate in it", "name a file of certificates as PEM", nil}
	}
	if name := f.ClientName; name != "" {
		n.config.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the client shows no certificate")
			}
			return state.PeerCertificates[0].VerifyHostname(name)
		}
	}
	return nil
}

// Config returns the configuration of a server. It always uses the latest contents.
func (c *Certs) Config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{c.protocol},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load().config, nil },
	}
}

// Expiry returns the time when the certificate expires.
func (c *Certs) Expiry() time.Time { return c.current.Load().expiry }

// Paths returns the names of the files, to be watched.
func (c *Certs) Paths() []string {
	paths := []string{c.files.Cert, c.files.Key}
	if c.files.ClientCA != "" {
		paths = append(paths, c.files.ClientCA)
	}
	return paths
}
