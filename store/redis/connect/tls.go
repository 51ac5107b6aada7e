package connect

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
)

// encryption are the parameters of a URL about certificates.
var encryption = map[string]bool{"ca": true, "cert": true, "key": true, "verify": true}

// setEncryption reads those parameters into config, which is nil if the URL is not encrypted.
func setEncryption(config *tls.Config, values url.Values) error {
	for name := range encryption {
		if config == nil && values.Has(name) {
			return &URLError{Problem: "certificates without encryption", Hint: "use rediss://, or leave " + name + " out"}
		}
	}
	if values.Has("ca") {
		if err := setCA(config, values.Get("ca")); err != nil {
			return err
		}
	}
	if values.Has("cert") != values.Has("key") {
		return &URLError{Problem: "a certificate without its key, or a key alone", Hint: "give both cert= and key=, or neither"}
	}
	if values.Has("cert") {
		if err := setClientCert(config, values.Get("cert"), values.Get("key")); err != nil {
			return err
		}
	}
	switch how := values.Get("verify"); {
	case !values.Has("verify") || how == "full":
	case how == "chain":
		verifyChain(config)
	default:
		return &URLError{Problem: fmt.Sprintf("verify=%s", how), Hint: "write full, or chain for a certificate of any name"}
	}
	return nil
}

// setCA accepts servers whose certificate is signed by one of the file's.
func setCA(config *tls.Config, path string) error {
	pem, err := os.ReadFile(path)
	if err != nil {
		return &URLError{Problem: "certificates cannot be read: " + err.Error(), Hint: "check the path behind ca="}
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return &URLError{Problem: "no certificate in " + path, Hint: "ca= names a file of certificates as PEM"}
	}
	return nil
}

// setClientCert sends the server a client certificate. It reads it for each connection, so that it
// can be renewed while the service runs.
func setClientCert(config *tls.Config, cert, key string) error {
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return &URLError{Problem: "the certificate for the server cannot be used: " + err.Error(), Hint: "check the paths behind cert= and key=, both PEM"}
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	return nil
}

// verifyChain checks that a trusted authority signed the server's certificate, but not its name.
func verifyChain(config *tls.Config) {
	roots := config.RootCAs
	config.InsecureSkipVerify = true //nolint:gosec // VerifyConnection checks everything but the name
	config.VerifyConnection = func(state tls.ConnectionState) error {
		options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, between := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(between)
		}
		if _, err := state.PeerCertificates[0].Verify(options); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		return nil
	}
}
