package limits_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// FuzzForwarded is A-5: whatever the untrusted side writes into forwarded headers, the key is the
// address of its connection, or the one that the last trusted proxy saw. The site trusts 127.0.0.2; a
// request comes from there or from 127.0.0.1.
func FuzzForwarded(f *testing.F) {
	g := forwarding(f, "servers {\n\t\ttrusted_proxies static 127.0.0.2 10.0.0.0/8\n\t\ttrusted_proxies_strict\n\t}", "")
	random := rand.New(rand.NewPCG(1, 2))
	for _, written := range []string{
		"", "1.1.1.1", "1.1.1.1, 2.2.2.2", " , ,", "unknown", "for=1.1.1.1", "10.0.0.1, 1.1.1.1, 10.0.0.2", "[::1]:80", "1.1.1.1\t", `"1.1.1.1"`, "127.0.0.2", "1.1.1.1:80,", strings.Repeat("10.0.0.1,", 120),
	} {
		f.Add(written, random.Uint64())
	}
	f.Fuzz(func(t *testing.T, written string, seed uint64) {
		if strings.ContainsFunc(written, func(r rune) bool { return r < ' ' || r > '~' }) || len(written) > 4000 {
			return // no header that a server accepts
		}
		g.T = t
		seen := netip.AddrFrom4([4]byte{198, 51, byte(seed), byte(seed >> 8)}).String()
		for _, tt := range []struct {
			name, from string
			headers    []string // names and values
			want       string
		}{
			{"untrusted", "127.0.0.1", []string{"X-Forwarded-For", written, "Forwarded", "for=" + written, "X-Real-IP", written, "CF-Connecting-IP", written}, "127.0.0.1"},
			{"a proxy that adds", "127.0.0.2", []string{"X-Forwarded-For", written, "X-Forwarded-For", seen, "Forwarded", written, "X-Real-IP", written}, seen},
			{"in one line", "127.0.0.2", []string{"X-Forwarded-For", written + ", " + seen}, seen},
			{"two proxies", "127.0.0.2", []string{"X-Forwarded-For", written + "," + seen + ", 10.1.1.1"}, seen},
			{"a proxy that adds nonsense", "127.0.0.2", []string{"X-Forwarded-For", written + ", unknown"}, "127.0.0.2"},
		} {
			if got := g.key(tt.from, tt.headers); got != tt.want {
				t.Errorf("%s, written %q: the key is %s, want %s", tt.name, written, got, tt.want)
			}
		}
	})
}

// forwarding returns a gateway whose answers have the key in the header X-Key.
func forwarding(t testing.TB, globals, app string) *gateway {
	t.Helper()
	file := badFile("rules DIR/rules.yaml\n\t\t"+app, "stint api", globals)
	return start(t, file, map[string]string{"rules.yaml": "domain: api\ndescriptors: [{key: remote_address, rate_limit: {requests: 1, per: 8760h}}]\nhttp: {rate_limits: [{actions: [{remote_address: {}}]}]}\n"})
}

// key returns the address whose unit a request used: of the candidates, the one whose use changes.
func (g *gateway) key(from string, headers []string) string {
	g.T.Helper()
	r, err := http.NewRequestWithContext(g.T.Context(), http.MethodGet, "http://"+g.address+"/", http.NoBody)
	testkit.Must(g.T, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	g.doFrom(from, r)
	for _, address := range candidates(from, headers) {
		entry := fmt.Sprintf(`{"key": "remote_address", "value": %q}`, address)
		if g.used("api/remote_address", entry) > 0 {
			g.ask(http.MethodPost, "/stint/v1/reset", `{"domain": "api", "descriptors": [{"entries": [`+entry+`]}]}`)
			return address
		}
	}
	return "another address"
}

// candidates are the addresses in a request.
func candidates(from string, headers []string) []string {
	found := []string{"127.0.0.1", "127.0.0.2", from}
	for i := 1; i < len(headers); i += 2 {
		for _, part := range strings.FieldsFunc(headers[i], func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF.:", r) }) {
			if a, err := netip.ParseAddr(part); err == nil {
				found = append(found, a.String())
			} else if a, err := netip.ParseAddrPort(part); err == nil {
				found = append(found, a.Addr().String())
			}
		}
	}
	return found
}

// TestTrustedProxies checks the sources of trusted proxies: the app's come first, then the server's;
// without any the client is the peer. The header is the first of client_ip_headers.
func TestTrustedProxies(t *testing.T) {
	const seen = "198.51.100.7"
	for _, tt := range []struct{ name, globals, app, header, want string }{
		{"none", "", "", "X-Forwarded-For", "127.0.0.2"},
		{"the server's", "servers {\n\t\ttrusted_proxies static 127.0.0.0/8\n\t\ttrusted_proxies_strict\n\t}", "", "X-Forwarded-For", seen},
		{"the app's", "", "trusted_proxies 127.0.0.2", "X-Forwarded-For", seen},
		{"another of the app", "servers {\n\t\ttrusted_proxies static 127.0.0.2\n\t\ttrusted_proxies_strict\n\t}", "trusted_proxies 127.0.0.3", "X-Forwarded-For", "127.0.0.2"},
		{"another header", "servers {\n\t\ttrusted_proxies static 127.0.0.2\n\t\ttrusted_proxies_strict\n\t\tclient_ip_headers X-Real-IP\n\t}", "", "X-Real-IP", seen},
		{"a header that is not read", "servers {\n\t\ttrusted_proxies static 127.0.0.2\n\t\ttrusted_proxies_strict\n\t\tclient_ip_headers X-Real-IP\n\t}", "", "X-Forwarded-For", "127.0.0.2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := forwarding(t, tt.globals, tt.app)
			if got := g.key("127.0.0.2", []string{tt.header, seen}); got != tt.want {
				t.Errorf("the key is %s, want %s", got, tt.want)
			}
		})
	}
}
