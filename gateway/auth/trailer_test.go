package auth

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stint/gateway/gatewaytest"
	"stint/internal/testkit"
)

// A client can neither send an identity behind the body, announced or not, nor have the proxy remove the one
// that it proved as a field of its connection.
func TestIdentityByConnection(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%v %q trailers %v", err, r.Header.Get(DefaultHeader), r.Trailer)
	}))
	t.Cleanup(upstream.Close)
	s := newRecords(t)
	key := s.key("user=42")
	g := gatewaytest.New(t)
	s.load(g, "{\n\tGLOBAL\n}\nhttp://ADDRESS {\n\tstint_identity\n\tstint_keys /api\n\treverse_proxy "+upstream.Listener.Addr().String()+"\n}")
	for _, tt := range []struct{ name, text, want string }{
		{
			"trailers", "POST / HTTP/1.1\r\nTrailer: X-Other, X-Stint-Identity\r\nTransfer-Encoding: chunked\r\n" +
				"Host: HOST\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\nX-Other: 1\r\nX-Stint-Identity: root\r\nStint-Identity: root\r\nX_STINT_identity: root\r\n\r\n",
			`<nil> "" trailers map[X-Other:[1]]`,
		},
		{
			"a field of the connection", "GET /api HTTP/1.1\r\nX-Api-Key: KEY\r\nHost: HOST\r\nConnection: x-stint-identity, close\r\n\r\n",
			`<nil> "42" trailers map[]`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", g.Address)
			testkit.Must(t, err)
			defer c.Close()
			_, err = io.WriteString(c, strings.NewReplacer("HOST", g.Address, "KEY", key).Replace(tt.text))
			testkit.Must(t, err)
			answer, err := io.ReadAll(c)
			testkit.Must(t, err)
			if _, body, _ := strings.Cut(string(answer), "\r\n\r\n"); body != tt.want {
				t.Errorf("%q, want %s", answer, tt.want)
			}
		})
	}
}
