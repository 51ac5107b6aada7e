package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint/internal/testkit"
)

// loopback allows the servers of these tests.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func secretsOf(t testing.TB) []Secret {
	t.Helper()
	secrets, err := ParseSecrets([]byte(secretText))
	testkit.Must(t, err)
	return secrets
}

// A receiver can verify what it gets with the headers and the body alone.
func TestSend(t *testing.T) {
	defer goleak.VerifyNone(t)
	var problem string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secretText, "whsec_"))
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
			problem = "the signature is " + r.Header.Get("webhook-signature") + ", want " + want
		}
		if r.Method != "POST" || r.Header.Get("webhook-id") != "evt_1" || r.Header.Get("Content-Type") != "application/json" || string(body) != `{"a":1}` {
			problem = fmt.Sprint(r.Method, r.Header, string(body))
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	c := NewClient(ClientOptions{URL: receiver.URL + "/in", Allow: loopback})
	if a := c.Send(t.Context(), Message{"evt_1", []byte(`{"a":1}`)}, secretsOf(t)); a != (Answer{Status: 204}) {
		t.Errorf("the answer is %+v", a)
	}
	if problem != "" {
		t.Error(problem)
	}
}

func TestJudge(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		status int
		after  string
		failed bool
		want   Answer // without Problem
	}{
		{200, "", false, Answer{Status: 200}},
		{299, "60", false, Answer{Status: 299}},
		{199, "", true, Answer{Status: 199}},
		{301, "", true, Answer{Status: 301}},
		{400, "", true, Answer{Status: 400}},
		{410, "", true, Answer{Status: 410, Gone: true}},
		{429, "", true, Answer{Status: 429, Pause: defaultPause}},
		{429, "7", true, Answer{Status: 429, Pause: 7 * time.Second}},
		{502, "", true, Answer{Status: 502, Pause: defaultPause}},
		{504, "nonsense", true, Answer{Status: 504, Pause: defaultPause}},
		{500, "", true, Answer{Status: 500}},
		{503, "Thu, 26 Nov 2026 12:01:00 GMT", true, Answer{Status: 503, Pause: time.Minute}},
		{503, "Thu, 26 Nov 2026 11:00:00 GMT", true, Answer{Status: 503}},
		{503, "99999999", true, Answer{Status: 503, Pause: mostRetryAfter}},
		{503, "-5", true, Answer{Status: 503}},
	} {
		got := judge(test.status, test.after, now)
		if (got.Problem != "") != test.failed {
			t.Errorf("%d: the problem is %q", test.status, got.Problem)
		}
		got.Problem = ""
		if got != test.want {
			t.Errorf("%d, Retry-After %q: %+v, want %+v", test.status, test.after, got, test.want)
		}
	}
}

// A redirect is a failure, and its target is not called; nor is a proxy of the environment.
func TestFollowsNobody(t *testing.T) {
	var called atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer other.Close()
	t.Setenv("HTTP_PROXY", other.URL)
	t.Setenv("http_proxy", other.URL)
	receiver := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer receiver.Close()
	a := NewClient(ClientOptions{URL: receiver.URL, Allow: loopback}).Send(t.Context(), Message{"evt_1", nil}, secretsOf(t))
	if a.Status != 307 || !strings.Contains(a.Problem, "redirects are not followed") {
		t.Errorf("the answer is %+v", a)
	}
	resolver, _ := lookups(t, "203.0.113.1")
	NewClient(ClientOptions{URL: "http://hooks.example.com/in", Resolver: resolver, Allow: loopback}).Send(t.Context(), Message{"evt_1", nil}, secretsOf(t))
	if n := called.Load(); n != 0 {
		t.Errorf("another server was called %d times", n)
	}
}

// What an error says has neither the path nor the query of the URL, which may be secret.
func TestProblemsHideURL(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	address := listener.Addr().String()
	testkit.Must(t, listener.Close())
	a := NewClient(ClientOptions{URL: "http://" + address + "/hunter2?key=hunter2", Allow: loopback}).Send(t.Context(), Message{"evt_1", nil}, secretsOf(t))
	if a.Problem == "" || strings.Contains(a.Problem, "hunter2") {
		t.Errorf("the problem is %q", a.Problem)
	}
	if got := placeOfURL("https://example.com/hunter2?key=hunter2"); got != "https://example.com" {
		t.Errorf("the place is %q", got)
	}
}

// What an error says has no text of the receiver, which may be long, and may repeat the URL.
func TestProblemsHideAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"a header that is none": "HTTP/1.1 500 x\r\n%s",
		"a status that is none": "HTTP/1.1 %s\r\n\r\n",
		"a broken location":     "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://%%zz/%s\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = fmt.Fprintf(conn, answer, strings.Repeat(r.URL.String(), 1000)) // an error shows in the answer
			}))
			defer receiver.Close()
			a := NewClient(ClientOptions{URL: receiver.URL + "/hunter2", Allow: loopback}).Send(t.Context(), Message{"evt_1", nil}, secretsOf(t))
			if a.Status != 0 || len(a.Problem) < 20 || len(a.Problem) > 250 || strings.Contains(a.Problem, "hunter2") {
				t.Errorf("the answer is %.300v", a)
			}
		})
	}
}

// A cause that quotes nothing, such as one with the names of a certificate, is cut and printable.
func TestReason(t *testing.T) {
	got := reason(errors.New("valid for \x1b[31m\n" + strings.Repeat("é", 1000)))
	if want := "no answer: valid for ?[31m?" + strings.Repeat("é", mostReason-16); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Addresses that are not public are not connected, whether the URL has them or a name leads to them. A server
// there gets no connection.
func TestPrivateAddresses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	var connections atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "169.254.169.254", "10.1.2.3", "[fe80::1]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::1]", "0.0.0.0", "localhost"} {
		refuse(t, NewClient(ClientOptions{URL: "http://" + host + ":" + port + "/"}), host)
	}
	for _, host := range []string{"2130706433", "0x7f.1", "127.1", "0177.0.0.1"} { // some resolvers take these for 127.0.0.1
		if a := NewClient(ClientOptions{URL: "http://" + host + ":" + port + "/"}).Send(t.Context(), Message{"evt_1", nil}, secretsOf(t)); a.Problem == "" {
			t.Errorf("%s: the answer is %+v", host, a)
		}
	}
	for _, address := range []string{"127.0.0.1", "169.254.169.254", "10.255.0.1"} {
		resolver, _ := lookups(t, address)
		refuse(t, NewClient(ClientOptions{URL: "http://hooks.example.com:" + port + "/", Resolver: resolver}), address)
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// A name that has a public address when somebody looks, and then a private one, gains nothing.
func TestRebinding(t *testing.T) {
	resolver, asked := lookups(t, "203.0.113.1", "10.0.0.8")
	addrs, err := resolver.LookupHost(t.Context(), "hooks.example.com")
	if err != nil || len(addrs) != 1 || addrs[0] != "203.0.113.1" {
		t.Fatalf("the first look-up is %v, %v", addrs, err)
	}
	refuse(t, NewClient(ClientOptions{URL: "http://hooks.example.com/", Resolver: resolver, Allow: []netip.Prefix{netip.MustParsePrefix("203.0.113.1/32")}}), "10.0.0.8")
	if asked.Load() < 2 {
		t.Error("the client did not ask the resolver of the test")
	}
}

// refuse checks that a client does not connect to an address.
func refuse(t *testing.T, c *Client, what string) {
	t.Helper()
	a := c.Send(t.Context(), Message{"evt_1", nil}, secretsOf(t))
	if a.Status != 0 || !strings.HasPrefix(a.Problem, "not connected: ") {
		t.Errorf("%s: the answer is %+v", what, a)
	}
}

// lookups returns a resolver whose names have the first address at the first question, then the second, and
// the last for ever. It has no addresses of IPv6. asked counts the questions.
func lookups(t *testing.T, addresses ...string) (_ *net.Resolver, asked *atomic.Int32) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	asked = new(atomic.Int32)
	go func() {
		packet := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(packet)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(reply(packet[:n], func() netip.Addr {
				i := int(asked.Add(1)) - 1
				return netip.MustParseAddr(addresses[min(i, len(addresses)-1)])
			}), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}, asked
}

// reply answers a question of DNS: a question about IPv4 has one address, any other none.
func reply(question []byte, next func() netip.Addr) []byte {
	const header = 12
	end := header
	for question[end] != 0 { // labels, each after its length
		end += int(question[end]) + 1
	}
	end += 5 // the last label, type and class
	kind := question[end-3]
	answer := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[header:end]...)
	if kind == 1 {
		answer[7] = 1
		answer = append(answer, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		answer = append(answer, next().AsSlice()...)
	}
	return answer
}

func TestCheckURL(t *testing.T) {
	for text, ok := range map[string]bool{
		"https://hooks.example.com/in?token=1": true, "http://127.0.0.1:9000/": true,
		"ftp://example.com/": false, "https://": false, "hooks.example.com": false, "https://user:secret@example.com/": false, "https://example.com/#a": false, "https:example.com": false, "http://[::1": false,
	} {
		if problem, hint := CheckURL(text); (problem == "") != ok || (hint == "") != ok {
			t.Errorf("%s: %q, %q", text, problem, hint)
		}
	}
}
