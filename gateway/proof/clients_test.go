package proof_test

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"stint/internal/testkit"
)

const hello = "%s\n\trespond /hello \"hello, {http.request.proto}\""

// curl gets the answer with HTTP/1.1 and HTTP/2 over TLS, and with the limit it gets 429.
func TestCurl(t *testing.T) {
	both(t, hello, func(t *testing.T, g *gateway) {
		for _, version := range []string{"--http1.1", "--http2"} {
			out := curl(t, "--silent", "--include", version, "--cacert", g.rootFile(), g.url("/hello"))
			proto := map[string]string{"--http1.1": "HTTP/1.1", "--http2": "HTTP/2"}[version]
			if !strings.HasPrefix(out, proto+" 200") || !strings.Contains(out, "hello, HTTP/") {
				t.Errorf("%s: %s", version, out)
			}
			if limited := strings.Contains(strings.ToLower(out), "ratelimit: "); limited != strings.HasSuffix(t.Name(), "stint") {
				t.Errorf("the header RateLimit: %v in %s", limited, out)
			}
			deny := []string{"--silent", "--include", version, "--cacert", g.rootFile(), "--header", "x-deny: " + version, g.url("/hello")}
			curl(t, deny...)
			if out := curl(t, deny...); strings.Contains(t.Name(), "stint") && !strings.HasPrefix(out, proto+" 429") {
				t.Errorf("%s: %s", version, out)
			}
		}
	})
}

func curl(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "curl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// quic-go's client gets the answer with HTTP/3, and a denial with its headers.
func TestHTTP3(t *testing.T) {
	both(t, hello, func(t *testing.T, g *gateway) {
		transport := &http3.Transport{TLSClientConfig: g.tls()}
		defer transport.Close()
		client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
		for i, want := range []int{200, 429} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url("/hello"), nil)
			testkit.Must(t, err)
			r.Header.Set("X-Deny", "three")
			answer, err := client.Do(r)
			testkit.Must(t, err)
			body, err := io.ReadAll(answer.Body)
			testkit.Must(t, err)
			answer.Body.Close()
			if !strings.HasSuffix(t.Name(), "stint") {
				want = 200
			}
			if answer.StatusCode != want || answer.ProtoMajor != 3 || want == 200 && string(body) != "hello, HTTP/3.0" {
				t.Errorf("request %d: %s %s %s", i, answer.Proto, answer.Status, body)
			}
			if want == 429 && answer.Header.Get("Retry-After") == "" {
				t.Errorf("no Retry-After: %v", answer.Header)
			}
		}
	})
}
