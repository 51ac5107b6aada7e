package web

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// header makes a header of lines "Name: value".
func header(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestRead(t *testing.T) {
	nginx := []string{"X-Original-URI: /a//b%2F?x=1?", "X-Original-Method: POST", "X-Forwarded-Host: example.com:80"}
	tests := []struct {
		name  string
		lines []string
		want  ForwardedRequest
		fault string
	}{
		{"nginx", nginx, ForwardedRequest{"POST", "/a//b%2F", "x=1?", "example.com:80"}, ""},
		{"caddy, traefik", []string{"X-Forwarded-Uri: /a", "X-Forwarded-Method: GET"}, ForwardedRequest{"GET", "/a", "", ""}, ""},
		{"both, and the same", append([]string{"X-Forwarded-Uri: /a//b%2F?x=1?", "X-Forwarded-Method: POST"}, nginx...), ForwardedRequest{"POST", "/a//b%2F", "x=1?", "example.com:80"}, ""},
		{"whole URL", []string{"X-Forwarded-Uri: https://example.com/a?b://c", "X-Forwarded-Method: GET"}, ForwardedRequest{"GET", "/a", "b://c", ""}, ""},
		{"URL without a path", []string{"X-Forwarded-Uri: https://example.com?b", "X-Forwarded-Method: GET"}, ForwardedRequest{"GET", "/", "b", ""}, ""},
		{"origin alone", []string{"X-Forwarded-Uri: https://example.com", "X-Forwarded-Method: GET"}, ForwardedRequest{"GET", "/", "", ""}, ""},
		{"no origin", []string{"X-Forwarded-Uri: /go?to=http://example.com/b", "X-Forwarded-Method: GET"}, ForwardedRequest{"GET", "/go", "to=http://example.com/b", ""}, ""},
		{"query alone", []string{"X-Forwarded-Uri: ?b", "X-Forwarded-Method: GET"}, ForwardedRequest{"GET", "/", "b", ""}, ""},
		{"the whole server", []string{"X-Forwarded-Uri: *", "X-Forwarded-Method: OPTIONS"}, ForwardedRequest{"OPTIONS", "*", "", ""}, ""},
		{"an empty value says nothing", []string{"X-Original-URI: ", "X-Forwarded-Uri: /a", "X-Forwarded-Method: GET"}, ForwardedRequest{"GET", "/a", "", ""}, ""},

		{"nothing", nil, ForwardedRequest{}, "the request's path"},
		{"no method", []string{"X-Original-URI: /a"}, ForwardedRequest{}, "the request's method"},
		{"no URI", []string{"X-Original-Method: GET"}, ForwardedRequest{}, "the request's path"},
		{"two URIs", append([]string{"X-Forwarded-Uri: /free"}, nginx...), ForwardedRequest{}, "twice"},
		{"two lines", append([]string{"X-Original-URI: /free"}, nginx...), ForwardedRequest{}, "twice"},
		{"two methods", append([]string{"X-Forwarded-Method: HEAD"}, nginx...), ForwardedRequest{}, "twice"},
		{"two hosts", append([]string{"X-Forwarded-Host: other"}, nginx...), ForwardedRequest{}, "twice"},
		{"two hosts in a line", []string{"X-Original-URI: /a", "X-Original-Method: GET", "X-Forwarded-Host: a, b"}, ForwardedRequest{}, "twice"},
		{"no path", []string{"X-Original-URI: a/b", "X-Original-Method: GET"}, ForwardedRequest{}, "no path"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ReadForwarded(header(test.lines...))
			if test.fault != "" {
				fault, ok := errors.AsType[*ForwardedError](err)
				if !ok || !strings.Contains(fault.Problem, test.fault) || fault.Hint == "" {
					t.Errorf("error %v, want %q and a hint", err, test.fault)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("%+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

// Whatever headers a client adds to those of its proxy, the result is the proxy's value or an
// error.
func FuzzRead(f *testing.F) {
	f.Add("/free", "HEAD", "other", "/a?b")
	f.Add("", "", "a, b", "http://x")
	f.Fuzz(func(t *testing.T, uri, method, host, own string) {
		lines := []string{"X-Original-URI: /" + own, "X-Original-Method: POST", "X-Forwarded-Host: example.com"}
		alone, err := ReadForwarded(header(lines...))
		if err != nil {
			t.Fatalf("%q: %v", own, err)
		}
		for _, add := range []string{
			"X-Original-URI: " + uri, "X-Forwarded-Uri: " + uri, "X-Forwarded-Method: " + method, "X-Forwarded-Host: " + host,
		} {
			for _, all := range [][]string{append([]string{add}, lines...), append(lines[:3:3], add)} {
				if got, err := ReadForwarded(header(all...)); err == nil && got != alone {
					t.Fatalf("%q became %+v, want %+v", all, got, alone)
				}
			}
		}
	})
}

func TestTarget(t *testing.T) {
	for _, want := range []string{"/", "/a?b=c", "*"} {
		r, err := ReadForwarded(header("X-Original-URI: "+want, "X-Original-Method: GET"))
		if err != nil || r.Target() != want {
			t.Errorf("%q, %v, want %q", r.Target(), err, want)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	h := header("X-Original-URI: /orders/7?full=1", "X-Original-Method: GET", "X-Forwarded-Host: example.com")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadForwarded(h); err != nil {
			b.Fatal(err)
		}
	}
}
