package proof_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// hostile are raw requests that servers may read in two ways. HOST stands for the host.
var hostile = map[string]string{
	"two lengths":                  "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
	"the same length twice":        "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
	"a list of lengths":            "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3, 5\r\n\r\nabcde",
	"chunked and a length":         "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /second HTTP/1.1\r\nHost: HOST\r\n\r\n",
	"chunked twice":                "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"another transfer encoding":    "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"chunked with a tab":           "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding:\tchunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"chunked after a vertical":     "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: \x0bchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"space before the colon":       "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding : chunked\r\nContent-Length: 3\r\n\r\nabc",
	"chunked in HTTP/1.0":          "POST / HTTP/1.0\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	"bare CR in a value":           "GET / HTTP/1.1\r\nHost: HOST\r\nX-A: b\rX-C: d\r\nConnection: close\r\n\r\n",
	"bare CR after the length":     "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\r\n\r\nabc",
	"bare LF":                      "GET / HTTP/1.1\nHost: HOST\nConnection: close\n\n",
	"NUL in a value":               "GET / HTTP/1.1\r\nHost: HOST\r\nX-A: b\x00c\r\nConnection: close\r\n\r\n",
	"a folded header":              "GET / HTTP/1.1\r\nHost: HOST\r\nX-A: b\r\n c\r\nConnection: close\r\n\r\n",
	"a signed length":              "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: +3\r\n\r\nabc",
	"a negative length":            "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n\r\n",
	"a hexadecimal length":         "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0x3\r\n\r\nabc",
	"a huge length":                "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
	"a chunk size that overflows":  "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n",
	"a chunk with a bare LF":       "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\nabc\n0\n\n",
	"a chunk extension":            "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
	"a chunk longer than its size": "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
	"a trailer with a length":      "POST / HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n",
	"two hosts":                    "GET / HTTP/1.1\r\nHost: HOST\r\nHost: other\r\n\r\n",
	"no host":                      "GET / HTTP/1.1\r\n\r\n",
	"an absolute target":           "GET http://other/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
	"a host with a space":          "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	"a body of a GET":              "GET / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
	"two requests":                 "GET /one HTTP/1.1\r\nHost: HOST\r\n\r\nGET /two HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
	"connection names a header":    "GET / HTTP/1.1\r\nHost: HOST\r\nConnection: close, X-Real\r\nX-Real: 1\r\n\r\n",
	"no such version":              "GET / HTTP/3.7\r\nHost: HOST\r\n\r\n",
	"HTTP/2 without TLS":           "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"no request":                   "\x16\x03\x01\x00\x05hello\r\n\r\n",
	"a long header":                "GET / HTTP/1.1\r\nHost: HOST\r\nX-A: " + strings.Repeat("a", 2<<20) + "\r\n\r\n",
	"CONNECT":                      "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n",
	"escapes in the path":          "GET /%2e%2e/%00x//y HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
	"a bad escape":                 "GET /%zz HTTP/1.1\r\nHost: HOST\r\n\r\n",
	"expect something":             "POST / HTTP/1.1\r\nHost: HOST\r\nExpect: tea\r\nContent-Length: 3\r\n\r\nabc",
	"upgrade to h2c":               "GET / HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
}

// ours are the header fields that limits add, and what differs from time to time.
var ours = regexp.MustCompile(`(?mi)^(ratelimit|ratelimit-policy|x-ratelimit-[a-z]+|date): .*\r\n`)

// Every hostile request is answered as bare Caddy answers it, and as many complete requests reach the
// upstream, with the same bodies.
func TestHostile(t *testing.T) {
	var reached atomic.Int64
	var bodies atomic.Value
	site := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // whether the beginning of a bad body arrives depends on the moment
		}
		reached.Add(1)
		bodies.Store(fmt.Sprintf("%s %s %q %d", r.Method, r.RequestURI, body, r.ContentLength))
		fmt.Fprintf(w, "%s %s %q X-Real=%q", r.Method, r.RequestURI, body, r.Header["X-Real"])
	})
	limited, bare := start(t, site, true), start(t, site, false)
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			var got, upstreams [2]string
			for i, g := range []*gateway{limited, bare} {
				reached.Store(0)
				bodies.Store("")
				answer := exchange(t, g.http, strings.ReplaceAll(text, "HOST", "localhost:"+port(g.http)))
				answer = strings.ReplaceAll(answer, port(g.http), "PORT")
				got[i] = ours.ReplaceAllString(answer, "")
				upstreams[i] = fmt.Sprint(reached.Load(), bodies.Load())
			}
			if got[0] != got[1] {
				t.Errorf("with limits\n%s\nbare Caddy\n%s", got[0], got[1])
			}
			if upstreams[0] != upstreams[1] {
				t.Errorf("at the upstream: with limits %s, bare Caddy %s", upstreams[0], upstreams[1])
			}
		})
	}
}
