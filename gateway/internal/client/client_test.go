package client

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/internal/web"
)

// counting is a source of trusted proxies that counts how often it is asked.
type counting struct{ asked int }

func (c *counting) GetIPRanges(*http.Request) []netip.Prefix {
	c.asked++
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// A second look-up about a request does no work, unless what it depends on has changed.
func TestFindOnce(t *testing.T) {
	source, server := new(counting), new(caddyhttp.Server)
	first := &Finder{source: source, header: web.ForwardedFor, server: server}
	second := &Finder{source: source, header: web.ForwardedFor, server: server}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	var known Found
	for i, step := range []struct {
		peer, forwarded, want string
		finder                *Finder
		asked                 int
	}{
		{"127.0.0.1:1", "192.0.2.1", "192.0.2.1", first, 1},
		{"127.0.0.1:1", "192.0.2.1", "192.0.2.1", second, 1},
		{"127.0.0.1:1", "192.0.2.2", "192.0.2.2", second, 2},
		{"192.0.2.3:1", "192.0.2.2", "192.0.2.3", second, 3},
		{"192.0.2.3:1", "192.0.2.2", "192.0.2.3", &Finder{source: source, header: web.ForwardedFor, server: new(caddyhttp.Server)}, 4},
	} {
		r.RemoteAddr = step.peer
		r.Header.Set("X-Forwarded-For", step.forwarded)
		addr, forwarded := step.finder.FindOnce(r, &known)
		if addr.String() != step.want || forwarded != (step.peer == "127.0.0.1:1") || source.asked != step.asked {
			t.Errorf("step %d: %v, %v, asked %d times; want %+v", i, addr, forwarded, source.asked, step)
		}
	}
}
