package web

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
)

// files writes certificates that an authority signed for names, and returns the files.
func files(t *testing.T, dir string, ca *testkit.Authority, names ...string) CertFiles {
	t.Helper()
	f := CertFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), ClientCA: filepath.Join(dir, "ca.pem")}
	cert, key := ca.Sign(t, time.Hour, names...)
	for name, data := range map[string][]byte{f.Cert: cert, f.Key: key, f.ClientCA: ca.PEM()} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// handshake connects a client to a server and returns the name in the server's certificate.
func handshake(t *testing.T, c *Certs, client *tls.Config) (shown string, err error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	failed := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			defer conn.Close()
			err = conn.(*tls.Conn).Handshake()
		}
		failed <- err
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		<-failed //nolint:errcheck // the client's error is enough
		return "", err
	}
	defer conn.Close()
	if err := <-failed; err != nil {
		return "", err
	}
	return conn.ConnectionState().PeerCertificates[0].DNSNames[0], nil
}

// A connection uses the contents of the last successful load.
func TestReload(t *testing.T) {
	ca, dir := testkit.NewAuthority(t), t.TempDir()
	f := files(t, dir, ca, "first.test")
	f.ClientCA = ""
	c, err := LoadCerts(f, "h2")
	if err != nil {
		t.Fatal(err)
	}
	client := &tls.Config{RootCAs: ca.Pool(), ServerName: "first.test"}
	if shown, err := handshake(t, c, client); err != nil || shown != "first.test" {
		t.Fatalf("the server shows %q, error %v", shown, err)
	}
	if changed, err := c.Reload(); changed || err != nil {
		t.Errorf("nothing has changed: changed %v, error %v", changed, err)
	}
	if err := os.WriteFile(f.Cert, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.Reload(); changed || err == nil || !strings.HasPrefix(err.Error(), f.Cert+": not a certificate with the key") {
		t.Errorf("rubbish: changed %v, error %v", changed, err)
	}
	if shown, err := handshake(t, c, client); err != nil || shown != "first.test" {
		t.Errorf("after rubbish the server shows %q, error %v", shown, err)
	}
	files(t, dir, ca, "second.test")
	if changed, err := c.Reload(); !changed || err != nil {
		t.Errorf("a new certificate: changed %v, error %v", changed, err)
	}
	client.ServerName = "second.test"
	if shown, err := handshake(t, c, client); err != nil || shown != "second.test" {
		t.Errorf("the server shows %q, error %v", shown, err)
	}
	if left := time.Until(c.Expiry()); left < 59*time.Minute || left > time.Hour {
		t.Errorf("the certificate is good for %v", left)
	}
}

// Only clients with a matching certificate can connect.
func TestClients(t *testing.T) {
	ca, stranger := testkit.NewAuthority(t), testkit.NewAuthority(t)
	f := files(t, t.TempDir(), ca, "server.test")
	for _, test := range []struct {
		name   string
		signer *testkit.Authority // nil: no certificate
		client string
		wanted string // the server name that the client expects
		let    bool
	}{
		{"a client of ours", ca, "envoy.test", "", true},
		{"no certificate", nil, "", "", false},
		{"another authority", stranger, "envoy.test", "", false},
		{"the right name", ca, "envoy.test", "envoy.test", true},
		{"another name", ca, "other.test", "envoy.test", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := f
			f.ClientName = test.wanted
			c, err := LoadCerts(f, "h2")
			if err != nil {
				t.Fatal(err)
			}
			client := &tls.Config{RootCAs: ca.Pool(), ServerName: "server.test", MaxVersion: tls.VersionTLS12}
			if test.signer != nil {
				client.Certificates = []tls.Certificate{test.signer.Pair(t, test.client)}
			}
			if _, err := handshake(t, c, client); (err == nil) != test.let {
				t.Errorf("error %v, want let in %v", err, test.let)
			}
		})
	}
}

// An error names the file that cannot be used.
func TestFaults(t *testing.T) {
	ca, dir := testkit.NewAuthority(t), t.TempDir()
	good := files(t, dir, ca, "server.test")
	other := files(t, t.TempDir(), ca, "other.test")
	old := filepath.Join(dir, "old.pem")
	cert, key := ca.Sign(t, -time.Hour, "old.test")
	for name, data := range map[string][]byte{old: append(cert, key...), dir + "/empty.pem": nil} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name   string
		change func(*CertFiles)
		file   string
		want   string
	}{
		{"no certificate", func(f *CertFiles) { f.Cert = dir + "/none" }, dir + "/none", "cannot read it: no such file"},
		{"the key of another", func(f *CertFiles) { f.Key = other.Key }, good.Cert, "not a certificate with the key"},
		{"an old one", func(f *CertFiles) { f.Cert, f.Key = old, old }, old, "the certificate has expired on "},
		{"no authority", func(f *CertFiles) { f.ClientCA = dir + "/empty.pem" }, dir + "/empty.pem", "no certificate in it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := good
			test.change(&f)
			_, err := LoadCerts(f, "h2")
			if err == nil || !strings.HasPrefix(err.Error(), test.file+": "+test.want) {
				t.Fatalf("error %v, want %s: %s", err, test.file, test.want)
			}
			if fault := err.(*CertError); fault.Hint == "" || fault.File != test.file { //nolint:errorlint // LoadCerts returns this type
				t.Errorf("%+v", fault)
			}
		})
	}
}
