package app

import (
	"crypto/tls"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/web"
)

// HTTP and admin clients need a certificate of the right authority and name, each by its own
// settings; a renewed server certificate is used without a restart, and an invalid file changes
// nothing.
func TestHTTPTLS(t *testing.T) {
	ca, dirs, rules := testkit.NewAuthority(t), map[string]string{}, filepath.Join(t.TempDir(), "rules.yaml")
	files := func(listener string) web.CertFiles {
		dir := t.TempDir()
		dirs[listener] = dir
		certFiles(t, dir, ca, listener+".first.test")
		return web.CertFiles{
			Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"),
			ClientCA: filepath.Join(dir, "ca.pem"), ClientName: "client.test",
		}
	}
	write(t, rules, rulesOf(3))
	s := start(t, func(c *settings.Config) {
		c.Rules, c.HTTPTLS, c.AdminTLS = []string{rules}, files("http"), files("admin")
	})
	paths := map[string]string{"http": "/v1/check", "admin": "/healthz"}
	ask := func(listener, name string, clients ...tls.Certificate) error {
		config := &tls.Config{RootCAs: ca.Pool(), ServerName: listener + name, Certificates: clients, NextProtos: []string{"h2", "http/1.1"}}
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: testTimeout}
		resp, err := c.Get("https://" + s.Addr(listener) + paths[listener])
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.ProtoMajor != 1 || resp.TLS == nil {
			t.Errorf("%s: %s", listener, resp.Proto)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	client := ca.Pair(t, "client.test")
	for listener := range paths {
		if err := ask(listener, ".first.test", client); err != nil {
			t.Fatal(err)
		}
		if ask(listener, ".first.test") == nil {
			t.Errorf("%s answers who has no certificate", listener)
		}
		if ask(listener, ".first.test", ca.Pair(t, "other.test")) == nil {
			t.Errorf("%s answers a certificate for another name", listener)
		}
		if status, _, _ := s.get(listener, paths[listener]); status != http.StatusBadRequest {
			t.Errorf("%s without encryption: status %d", listener, status)
		}
		at := s.log.size()
		write(t, filepath.Join(dirs[listener], "cert.pem"), "rubbish")
		s.log.await(t, at, "certificates refused: keeping the old ones", "listener="+listener, "cert.pem")
		if err := ask(listener, ".first.test", client); err != nil {
			t.Errorf("%s after rubbish: %v", listener, err)
		}
		at = s.log.size()
		certFiles(t, dirs[listener], ca, listener+".second.test")
		s.log.await(t, at, "certificates loaded", "listener="+listener)
		if err := ask(listener, ".second.test", client); err != nil {
			t.Errorf("%s after the renewal: %v", listener, err)
		}
		if left := time.Until(s.certs[listener].Expiry()); left < 50*time.Minute || left > time.Hour {
			t.Errorf("%s: the certificate is good for %v", listener, left)
		}
	}
}

// Incomplete TLS settings are refused for each listener, with their names.
func TestBadTLS(t *testing.T) {
	for listener, files := range map[string]func(*settings.Config) *web.CertFiles{
		"http": func(c *settings.Config) *web.CertFiles { return &c.HTTPTLS }, "admin": func(c *settings.Config) *web.CertFiles { return &c.AdminTLS },
		"grpc": func(c *settings.Config) *web.CertFiles { return &c.RLS.TLS },
	} {
		for want, f := range map[string]web.CertFiles{
			"-tls-key: a key without a certificate":              {Key: "k"},
			"-tls-cert: a certificate without its key":           {Cert: "c"},
			"-tls-client-ca: clients cannot be asked":            {ClientCA: "a"},
			"-tls-client-name: clients are not asked for":        {Cert: "c", Key: "k", ClientName: "n"},
			"-tls-cert: none.pem: cannot read it: no such file":  {Cert: "none.pem", Key: "k"},
			"-tls-key: " + "none.key: cannot read it: no such f": {Cert: "tls_test.go", Key: "none.key"},
		} {
			c := settings.Default()
			*files(&c) = f
			_, err := New(c)
			if err == nil || len(err.Error()) < len(listener+want) || err.Error()[:len(listener+want)] != listener+want {
				t.Errorf("%s with %+v: error %v, want %s", listener, f, err, listener+want)
			}
		}
	}
}
