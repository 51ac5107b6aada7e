package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/cmd/stint/cli"
	"stint/internal/testkit"
)

// adminAsks is a call of a command over the admin API.
type adminAsks struct {
	args   []string
	status int
	want   string // part of the output
}

func (a *adminAsks) try(t *testing.T) {
	t.Helper()
	var out, err bytes.Buffer
	status := run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &err}, a.args)
	if printed := out.String() + err.String(); status != a.status || !strings.Contains(printed, a.want) {
		t.Errorf("%q: status %d, %q; want %d, %q", a.args, status, printed, a.status, a.want)
	}
}

const adminRules = "domain: api\ndescriptors:\n  - {key: user, rate_limit: {requests: 5, per: 1d}}\n"

// TestAdminTLS calls a service that has a certificate and requires one from the client.
func TestAdminTLS(t *testing.T) {
	ca, dir := testkit.NewAuthority(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	cert, key := ca.Sign(t, time.Hour, "localhost")
	for name, text := range map[string][]byte{"ca.pem": ca.PEM(), "other.pem": testkit.NewAuthority(t).PEM(), "cert.pem": cert, "key.pem": key, "none.pem": nil} {
		testkit.Must(t, os.WriteFile(file(name), text, 0o600))
	}
	n := startNode(t, adminRules, "--admin-tls-cert="+file("cert.pem"), "--admin-tls-key="+file("key.pem"), "--admin-tls-client-ca="+file("ca.pem"))
	host := strings.Replace(strings.TrimPrefix(n.admin, "http://"), "127.0.0.1", "localhost", 1)
	pair := []string{"--admin-cert", file("cert.pem"), "--admin-key", file("key.pem")}
	for _, a := range []adminAsks{
		{append([]string{"limits", "--admin", "https://" + host, "--admin-ca", file("ca.pem")}, pair...), 0, "api/user"},
		{append([]string{"limits", "--admin", host, "--admin-ca", file("ca.pem")}, pair...), 0, "api/user"},
		{append([]string{"limits", "--admin", host, "--admin-ca", file("other.pem")}, pair...), 1, "hint: give the authority of its certificate"},
		{append([]string{"limits", "--admin", "https://" + host}, pair...), 1, "hint: give the authority of its certificate"},
		{append([]string{"limits", "--admin", "http://" + host}, pair...), 2, "other flags require TLS"},
		{[]string{"limits", "--admin", host, "--admin-ca", file("ca.pem")}, 1, "cannot ask " + host},
		{[]string{"limits", "--admin", host}, 1, "hint: it uses TLS"},
		{[]string{"limits", "--admin", host, "--admin-ca", file("none.pem")}, 1, "the file has no certificate"},
		{[]string{"limits", "--admin", host, "--admin-cert", file("cert.pem")}, 2, "need each other"},
	} {
		a.try(t)
	}
}
