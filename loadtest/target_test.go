package loadtest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"stint"
)

var user = Descriptor{"api", []Entry{{"user", "u-{key}"}, {"path", `/"x"`}}}

// askOnce asks a target once.
func askOnce(t *testing.T, target Target, key int, cost uint32) (Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	caller := target.Caller()
	defer func() {
		if err := caller.Close(); err != nil {
			t.Error(err)
		}
	}()
	return caller.Ask(ctx, key, cost)
}

func TestHTTPTargets(t *testing.T) {
	var status int
	var answer, said string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		said = r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization") + " " + r.Header.Get("X-User") + " " + string(body)
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	o := Options{Token: "secret", Prefix: `k"`}
	check, err := NewCheck(server.URL+"/", user, o)
	if err != nil {
		t.Fatal(err)
	}
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second, Burst: 7, Step: true})
	plain := NewPlain(Plain{URL: server.URL + "/a?k={key}", Header: map[string]string{"X-User": "{key}"}}, Options{Prefix: "k"})
	for _, test := range []struct {
		name         string
		target       Target
		status       int
		answer       string
		said, failed string
		want         Answer
	}{
		{"check", check, 200, `{"allowed":true}`, `POST /v1/check Bearer secret  {"domain":"api","descriptors":[{"entries":[{"key":"user","value":"u-k\"3"},{"key":"path","value":"/\"x\""}],"cost":2}]}`, "", Answer{Allowed: true}},
		{"check denied", check, 200, `{"allowed":false,"degraded":true}`, "", "", Answer{Degraded: true}},
		{"check refused", check, 400, `{"error":{}}`, "", "400 Bad Request", Answer{}},
		{"check of another service", check, 200, `{"status":"ok"}`, "", "no /v1/check", Answer{}},
		{"limit", NewLimitCheck(server.URL, limit, o), 200, `{"allowed":true}`, `{"key":"k\"3","limit":{"algorithm":"token_bucket","requests":5,"per":"1s","burst":7,"refill":"step"},"cost":2}`, "", Answer{Allowed: true}},
		{"plain", plain, 200, "x", "GET /a?k=k3  k3 ", "", Answer{Allowed: true}},
		{"plain denied", plain, 429, "x", "", "", Answer{}},
		{"plain broken", plain, 500, "x", "", "500 Internal", Answer{}},
		{"plain redirect is not followed", plain, 302, "x", "", "", Answer{Allowed: true}},
	} {
		status, answer = test.status, test.answer
		got, err := askOnce(t, test.target, 3, 2)
		if got != test.want || (err == nil) != (test.failed == "") || err != nil && !strings.Contains(err.Error(), test.failed) {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
		if !strings.Contains(said, test.said) {
			t.Errorf("%s: sent %s", test.name, said)
		}
		if err := test.target.Close(); err != nil {
			t.Error(err)
		}
	}
}

// rlsServer is a scripted rate limit service.
type rlsServer struct {
	rls.UnimplementedRateLimitServiceServer
	said  string
	reply rls.RateLimitResponse_Code
}

func (s *rlsServer) ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	s.said = strings.Join(md.Get("authorization"), "") + " " + r.GetDomain()
	for _, e := range r.GetDescriptors()[0].GetEntries() {
		s.said += " " + e.GetKey() + "=" + e.GetValue()
	}
	if r.GetHitsAddend() != 2 {
		s.said += " of another cost"
	}
	return &rls.RateLimitResponse{OverallCode: s.reply}, nil
}

func TestRLSTarget(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service, server := &rlsServer{}, grpc.NewServer()
	rls.RegisterRateLimitServiceServer(server, service)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	target, err := NewRLS(l.Addr().String(), user, Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	for code, allowed := range map[rls.RateLimitResponse_Code]bool{rls.RateLimitResponse_OK: true, rls.RateLimitResponse_OVER_LIMIT: false} {
		service.reply = code
		if got, err := askOnce(t, target, 3, 2); err != nil || got.Allowed != allowed {
			t.Errorf("%v: %+v, %v", code, got, err)
		}
	}
	if want := `Bearer secret api user=u-3 path=/"x"`; service.said != want {
		t.Errorf("it was asked %q, want %q", service.said, want)
	}
	service.reply = rls.RateLimitResponse_UNKNOWN
	if got, err := askOnce(t, target, 3, 2); err == nil {
		t.Errorf("no code: %+v", got)
	}
}

// respServer answers each connection with the bytes of replies, one for each command, and ends it then.
func respServer(t *testing.T, replies ...string) (address string, said chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	said = make(chan string, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for _, reply := range replies {
					command, err := readReply(in, 0)
					if err != nil {
						return
					}
					var words []string
					for _, w := range command.([]any) {
						words = append(words, w.(string))
					}
					said <- strings.Join(words, " ")
					_, _ = io.WriteString(conn, reply)
				}
			}()
		}
	}()
	return l.Addr().String(), said
}

func TestRESPTargets(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Minute, Burst: 7})
	for _, test := range []struct {
		name, reply string
		want        Answer
		failed      string
	}{
		{"throttle", "*5\r\n:0\r\n:7\r\n:6\r\n:-1\r\n:12\r\n", Answer{Allowed: true}, ""},
		{"throttle", "*5\r\n:1\r\n:7\r\n:0\r\n:12\r\n:84\r\n", Answer{}, ""},
		{"throttle", "-ERR unknown command\r\n", Answer{}, "ERR unknown command"},
		{"throttle", "+OK\r\n", Answer{}, "is OK"},
		{"check", "*4\r\n$7\r\nallowed\r\n:1\r\n$8\r\ndegraded\r\n:1\r\n", Answer{true, true}, ""},
		{"check", "*2\r\n$7\r\nallowed\r\n:0\r\n", Answer{}, ""},
		{"check", "*2\r\n$4\r\nrule\r\n$-1\r\n", Answer{}, "is ["},
		{"check", "HTTP/1.1 400 Bad Request\r\n", Answer{}, "not RESP2"},
		{"check", "$99999999999\r\n", Answer{}, "99999999999 bytes"},
		{"check", "*99999\r\n", Answer{}, "99999 items"},
		{"check", strings.Repeat("*1\r\n", 9), Answer{}, "not RESP2"},
		{"check", strings.Repeat("x", 9999), Answer{}, "buffer full"},
		{"check", "*2\r\n$7\r\nall", Answer{}, "EOF"},
	} {
		address, said := respServer(t, test.reply)
		target, err := NewThrottle(address, limit, Options{Prefix: "k"})
		want := "CL.THROTTLE k3 6 5 60 2"
		if test.name == "check" {
			target, err = NewRuleCheck(address, user, Options{})
			want = `STINT.CHECK api 2 user u-3 path /"x" COST 2`
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := askOnce(t, target, 3, 2)
		if got != test.want || (err == nil) != (test.failed == "") || err != nil && !strings.Contains(err.Error(), test.failed) {
			t.Errorf("%s %q: %+v, %v", test.name, test.reply, got, err)
		}
		if s := <-said; s != want {
			t.Errorf("sent %q, want %q", s, want)
		}
	}
}

// A caller sends its token first, and connects again after the server has ended the connection.
func TestRESPConnectsAgain(t *testing.T) {
	const allowed = "*2\r\n$7\r\nallowed\r\n:1\r\n"
	address, said := respServer(t, "+OK\r\n", allowed)
	target, err := NewRuleCheck(address, user, Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	caller := target.Caller()
	defer caller.Close()
	failures := 0
	for range 3 {
		if _, err := caller.Ask(t.Context(), 1, 1); err != nil {
			failures++
		}
	}
	if failures != 1 {
		t.Errorf("%d calls failed, want the second", failures)
	}
	if first := <-said; first != "AUTH secret" {
		t.Errorf("sent %q first", first)
	}
	if refused, _ := respServer(t, "-WRONGPASS no\r\n"); refused != "" {
		target, err := NewRuleCheck(refused, user, Options{Token: "wrong"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := askOnce(t, target, 1, 1); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("a wrong token: %v", err)
		}
	}
}

// Who gives up a call ends its reading.
func TestRESPIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	target, err := NewRuleCheck(l.Addr().String(), user, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	caller := target.Caller()
	defer caller.Close()
	if _, err := caller.Ask(ctx, 1, 1); err == nil {
		t.Error("an answer of nobody")
	}
}

func TestDescriptor(t *testing.T) {
	if !user.Named() || (Descriptor{"api", []Entry{{"user", "x"}}}).Named() {
		t.Error("Named is wrong")
	}
	if !(Plain{URL: "http://x/{key}"}).Named() || (Plain{URL: "http://x/"}).Named() {
		t.Error("Named of plain is wrong")
	}
	for _, d := range []Descriptor{{}, {Domain: "api"}, {Entries: user.Entries}} {
		if _, err := NewRuleCheck("", d, Options{}); err == nil {
			t.Errorf("%+v is a descriptor", d)
		}
	}
	for _, s := range []stint.Spec{{Requests: 1, Per: time.Second}, {Algorithm: stint.TokenBucket, Requests: 1, Per: time.Millisecond * 100}} {
		if _, err := NewThrottle("", stint.MustLimit(s), Options{}); err == nil {
			t.Errorf("%+v for CL.THROTTLE", s)
		}
	}
}
