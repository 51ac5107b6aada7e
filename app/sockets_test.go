package app

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"stint/app/settings"
	"stint/internal/testkit"
)

// All listeners accept Unix sockets: each file has the configured mode, its clients are answered,
// and it is removed at the end.
func TestSockets(t *testing.T) {
	dir, err := os.MkdirTemp("", "app") // sockets need a short path
	testkit.Must(t, err)
	defer os.RemoveAll(dir) //nolint:errcheck // nothing else needs it
	file := func(listener string) string { return filepath.Join(dir, listener+".sock") }
	rules := filepath.Join(dir, "rules.yaml")
	write(t, rules, rulesOf(3))
	s := start(t, func(c *settings.Config) {
		c.Rules, c.SocketMode = []string{rules}, 0o660
		c.HTTP, c.GRPC, c.Admin = "unix:"+file("http"), "unix:"+file("grpc"), "unix:"+file("admin")
	})
	for listener, path := range map[string]string{"http": "/healthcheck", "admin": "/readyz", "grpc": ""} {
		info, err := os.Stat(file(listener))
		testkit.Must(t, err)
		if mode := info.Mode().Perm(); mode != 0o660 {
			t.Errorf("%s: mode %v", listener, mode)
		}
		if path == "" {
			continue
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", file(listener))
		}
		c := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: testTimeout}
		resp, err := c.Get("http://localhost" + path)
		testkit.Must(t, err)
		testkit.Must(t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", listener, resp.Status)
		}
	}
	s.Stop(context.Background())
	if left, err := filepath.Glob(file("*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
