package proof_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"stint/internal/testkit"
)

// A request in the early data of HTTP/3 is answered with 425 where the address of its sender decides, because
// that address may be forged: by the limits, and by both kinds of lists. It is served where nothing asks the
// address, and after the handshake.
func TestEarlyData(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "all"), []byte("127.0.0.0/8\n::1\n"), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "none"), []byte("192.0.2.1\n"), 0o600))
	for directives, want := range map[string]int{
		"respond /other no":                      http.StatusOK,
		"stint_early proof":                      http.StatusTooEarly,
		"stint proof":                            http.StatusTooEarly,
		fmt.Sprintf("stint_only * %s/all", dir):  http.StatusTooEarly,
		fmt.Sprintf("stint_deny * %s/none", dir): http.StatusTooEarly,
		fmt.Sprintf("@other path /other\n\tstint_only @other %s/none", dir): http.StatusOK,
	} {
		g := setup{site: hello, directives: directives, store: "memory", rules: ample}.start(t)
		got := g.early(t)
		for range 50 { // a handshake can be complete before the handler runs
			if got[0] == want {
				break
			}
			got = g.early(t)
		}
		if got != [2]int{want, http.StatusOK} {
			t.Errorf("%s: %v in early data and after the handshake, want %d and 200", directives, got, want)
		}
	}
}

// early asks for /hello in the early data of a connection, and after its handshake, and returns the statuses.
func (g *gateway) early(t *testing.T) (statuses [2]int) {
	t.Helper()
	config := g.tls()
	config.ClientSessionCache = &ticketCache{ready: make(chan struct{})}
	first := &http3.Transport{TLSClientConfig: config}
	g.ask3(t, first, http.MethodGet)
	<-config.ClientSessionCache.(*ticketCache).ready //nolint:forcetypeassert // set above
	testkit.Must(t, first.Close())

	var used *quic.Conn
	second := &http3.Transport{TLSClientConfig: config, Dial: func(ctx context.Context, address string, tc *tls.Config, qc *quic.Config) (c *quic.Conn, err error) {
		used, err = quic.DialAddrEarly(ctx, address, tc, qc)
		return used, err
	}}
	defer second.Close()
	statuses[0] = g.ask3(t, second, http3.MethodGet0RTT)
	<-used.HandshakeComplete()
	if !used.ConnectionState().Used0RTT {
		t.Fatal("the connection has no early data")
	}
	statuses[1] = g.ask3(t, second, http.MethodGet)
	return statuses
}

// ask3 asks for /hello over HTTP/3 and returns the status.
func (g *gateway) ask3(t *testing.T, transport *http3.Transport, method string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, g.url("/hello"), nil)
	testkit.Must(t, err)
	answer, err := transport.RoundTrip(r)
	testkit.Must(t, err)
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	testkit.Must(t, err)
	return answer.StatusCode
}

// ticketCache keeps one session ticket, and closes ready when it has one.
type ticketCache struct {
	state *tls.ClientSessionState
	ready chan struct{}
}

// Get implements tls.ClientSessionCache.
func (c *ticketCache) Get(string) (*tls.ClientSessionState, bool) { return c.state, c.state != nil }

// Put implements tls.ClientSessionCache.
func (c *ticketCache) Put(_ string, state *tls.ClientSessionState) {
	if c.state == nil && state != nil {
		c.state = state
		close(c.ready)
	}
}
