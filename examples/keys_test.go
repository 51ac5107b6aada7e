package examples

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// junk is the number of other values beside a key: more than there are nodes, so that hashing them
// would reach all nodes.
const junk = 8

// ways are the ways to write the header of a client that has used up its limit.
var ways = []struct {
	client string   // the client: key k, or a client without a key, identified by its address
	lines  []string // lines of the header, each with %d for the number of the request
}{
	{"k", []string{"X-Api-Key: k"}},
	{"k", []string{"x-api-key:k"}},
	{"k", []string{"X-API-KEY:   k  "}},
	{"k", []string{"X-Api-Key:\tk\t"}},
	{"k", []string{"X-Api-Key: \t k \t\t"}},
	{"k", []string{"X-Api-Key: k", "X-Api-Key: other-%d"}},
	{"k", []string{"X-Api-Key: k", "x-api-key: a-%d", "X-API-KEY: b-%d"}},
	{"k", []string{"X-Api-Key: k", "X-Api-Key:"}},
	{"k", []string{"X-Api-Key: k", "X_Api_Key: other-%d"}},
	{"k", []string{"X_Api_Key: other-%d", "X-Api-Key: k"}},
	{"k", []string{"X-Api-Key: k", "X-Api_Key: other-%d"}},
	{"k", []string{"X-Api-Key: k", "X-First-Key: other-%d"}},
	{"k", []string{"X-First-Key: other-%d", "X-First-Key: again-%d", "X-Api-Key: k"}},
	{"k", []string{"X-Api-Key: k", "Connection: close, X-First-Key"}},
	{"k", []string{"X-Api-Key: k", "Connection: close, X-Other", "X-Other: %d"}},
	{"k", []string{"X-Api-Key: k", "X-Forwarded-For: 192.0.2.%d"}},
	{"k", []string{"X-Api-Key : other-%d", "X-Api-Key: k"}},

	{"", nil},
	{"", []string{"X-Api-Key:"}},
	{"", []string{"X-Api-Key:  "}},
	{"", []string{"X-Api-Key:\t"}},
	{"", []string{"X-Api-Key:", "X-Api-Key:"}},
	{"", []string{"X-Api-Key:", "X-Api-Key: other-%d"}},
	{"", []string{"X_Api_Key: other-%d"}},
	{"", []string{"X-Api-Key:", "X_Api_Key: other-%d"}},
	{"", []string{"Connection: close, X-Api-Key", "X-Api-Key:"}},
	{"", []string{"X-Forwarded-For: 192.0.2.%d"}},
}

// However a client writes its key, or leaves it out, it has one limit over all nodes: the proxy
// hashes the same value that the node counts by. A proxy may also refuse the request.
func TestStickyRespelledKeys(t *testing.T) {
	eachBalancer(t, func(t *testing.T, b balancer, c *cluster) {
		url := c.proxy(b, 0)
		for _, client := range []string{"k", ""} {
			at, passed := "", 0
			for _, way := range ways {
				if way.client != client {
					continue
				}
				for i := range junk {
					node, status := c.write(url, way.lines, i)
					if status == http.StatusOK {
						passed++
					}
					if way.lines == nil || len(way.lines) == 1 && way.lines[0] == "X-Api-Key: k" {
						at = node
					}
					if node != "" && node != at {
						t.Errorf("%q, %d: node %s, and node %s by the plain key", way.lines, i, node, at)
					}
					if status != http.StatusOK && status != http.StatusTooManyRequests && status != http.StatusBadRequest {
						t.Errorf("%q: status %d", way.lines, status)
					}
				}
			}
			if b.name == "nginx" { // from 1.23 on nginx reads two keys like that
				if _, status := c.write(url, []string{"X-Api-Key: k, other"}, 0); status != http.StatusBadRequest {
					t.Errorf("two keys that nginx has joined: %d", status)
				}
			}
			if passed != perClient() {
				t.Errorf("%d requests of client %q passed, want %d", passed, client, perClient())
			}
		}
	})
}

// write sends a request with header lines, and returns the node and the status of the response.
func (c *cluster) write(url string, lines []string, i int) (node string, status int) {
	c.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, Timeout: time.Minute}
	conn, err := dialer.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		c.t.Fatal(err)
	}
	text := "GET / HTTP/1.1\r\nHost: a\r\n"
	for _, line := range lines {
		text += strings.ReplaceAll(line, "%d", fmt.Sprint(i)) + "\r\n"
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.t.Fatalf("%q: %v", lines, err)
	}
	resp.Body.Close()
	return resp.Header.Get("X-Node"), resp.StatusCode
}

// A client with an IPv6 network has one limit for all its addresses.
func TestStickyNetworks(t *testing.T) {
	// A header has the address here, because not every machine has such networks.
	said := map[string][2]string{
		"nginx":   {"    map $http_x_api_key $key {", "    set_real_ip_from 127.0.0.0/8;\n    real_ip_header X-Forwarded-For;\n    map $http_x_api_key $key {"},
		"haproxy": {`    http-request set-var(txn.key) "req`, "    http-request set-src hdr(x-forwarded-for)\n" + `    http-request set-var(txn.key) "req`},
		"envoy":   {"use_remote_address: true", "use_remote_address: false"},
	}
	for _, b := range balancers {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			name, _, _ := strings.Cut(b.name, " ")
			words := maps.Clone(b.words)
			if words == nil {
				words = map[string]string{}
			}
			words[said[name][0]] = said[name][1]
			b.words = words
			c := newCluster(t)
			url := c.proxy(b, 0)
			nodes := map[string]bool{}
			for network := range 12 {
				at, passed := "", 0
				for i, host := range []string{"::1", ":1:2:3:4", ":a:0:0:1", ":ffff::", "::b:c", ":9:8::7", "::", ":a:b:c:d", "::2", "::3", "::4", "::5"} {
					address := fmt.Sprintf("2001:db8:%d:1%s", network, host)
					node, status := c.write(url, []string{"X-Forwarded-For: " + address}, i)
					if at == "" {
						at = node
					}
					if node != at || status != http.StatusOK && status != http.StatusTooManyRequests {
						t.Errorf("%s: %d by node %q, others of it by %q", address, status, node, at)
					}
					if status == http.StatusOK {
						passed++
					}
				}
				if nodes[at] = true; passed != perClient() {
					t.Errorf("network %d: %d passed, want %d", network, passed, perClient())
				}
			}
			if len(nodes) < 2 {
				t.Errorf("all networks came to nodes %v", nodes)
			}
		})
	}
}

// The same with HTTP/2, where values may begin and end with blanks.
func TestStickyRespelledKeysHTTP2(t *testing.T) {
	for _, b := range balancers {
		if b.name == "nginx" {
			continue // its port has only one protocol
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			url := c.proxy(b, 0)
			transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}).DialContext(ctx, network, address)
			}}
			transport.Protocols.SetUnencryptedHTTP2(true)
			t.Cleanup(transport.CloseIdleConnections)
			passed := map[string]int{}
			for client, all := range map[string][][]string{
				"k": {{"k"}, {" k"}, {"k "}, {"\tk"}, {"  \t k\t"}, {"k", "other-%d"}, {"k", "", "other-%d"}},
				"":  {nil, {""}, {" "}, {"\t"}, {"", "other-%d"}},
			} {
				for _, values := range all {
					for i := range junk {
						if c.sendHTTP2(transport, url, values, i) {
							passed[client]++
						}
					}
				}
			}
			if passed["k"] != perClient() || passed[""] != perClient() {
				t.Errorf("passed %v, want %d of each", passed, perClient())
			}
		})
	}
}

// sendHTTP2 sends a request with keys, and reports whether it passed.
func (c *cluster) sendHTTP2(transport *http.Transport, url string, keys []string, i int) bool {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, key := range keys {
		req.Header["X-Api-Key"] = append(req.Header["X-Api-Key"], strings.ReplaceAll(key, "%d", fmt.Sprint(i)))
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return false // the proxy refuses such a stream
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 {
		c.t.Fatalf("the proxy spoke %s", resp.Proto)
	}
	return resp.StatusCode == http.StatusOK
}
