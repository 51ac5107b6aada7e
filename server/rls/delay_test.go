package rls

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"stint/limiter"
	"stint/rule"
)

// Ten requests per second, evenly spaced; three may wait.
const queue = `
domain: api
descriptors:
  - key: q
    rate_limit: {requests: 10, per: 1s, algorithm: leaky_bucket, burst: 3}
  - key: a
    rate_limit: {unit: hour, requests_per_unit: 5}
`

// A leaky bucket delays its answers, up to the caller's deadline. A caller with an earlier deadline
// is denied and nothing is charged.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deskOf(t, Options{Headers: []rule.Preset{rule.Legacy}, Reset: Delta}, queue)
		for i, step := range []struct {
			wait time.Duration // how long the caller waits; 0: without limit
			over bool
			hold time.Duration
			left uint32 // remaining units of q and of a
			rest uint32
		}{
			{0, false, 0, 3, 4},
			{time.Second, false, 100 * time.Millisecond, 2, 3},
			{time.Second, false, 200 * time.Millisecond, 1, 2},
			{150 * time.Millisecond, true, 0, 1, 2},
			{301 * time.Millisecond, true, 0, 1, 2},
			{303 * time.Millisecond, false, 300 * time.Millisecond, 0, 1},
			{0, true, 0, 0, 1},
		} {
			ctx := t.Context()
			if step.wait > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, step.wait)
				defer cancel()
			}
			resp, failure := d.ask(ctx, t, request("q", "1", "a", "1"))
			if failure != nil {
				t.Fatal(failure)
			}
			q, a := resp.Statuses[0], resp.Statuses[1]
			over := resp.OverallCode == pb.RateLimitResponse_OVER_LIMIT
			if over != step.over || d.call.Delay() != step.hold || q.LimitRemaining != step.left || a.LimitRemaining != step.rest ||
				(q.Code == pb.RateLimitResponse_OVER_LIMIT) != step.over || a.Code != pb.RateLimitResponse_OK {
				t.Errorf("step %d: hold %v, %v", i, d.call.Delay(), resp)
			}
			headers := resp.ResponseHeadersToAdd
			if retry := headers[0].Key == "Retry-After" && headers[0].Value == "1"; retry != step.over {
				t.Errorf("step %d: %v", i, headers)
			}
		}
	})
}

// If the caller disconnects while its answer is delayed, its units are given back.
func TestAbandon(t *testing.T) {
	d := deskOf(t, Options{}, queue)
	for range 3 {
		if resp, failure := d.ask(t.Context(), t, request("q", "1", "a", "1")); failure != nil || resp.Statuses[1].LimitRemaining < 3 {
			t.Fatal(resp, failure)
		}
		if hold := d.call.Delay(); hold > 100*time.Millisecond {
			t.Fatalf("held for %v", hold)
		} else if hold > 0 {
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			d.Abandon(gone, &d.call)
		}
	}
}

// A reused Call has no delay left from the request before.
func TestHoldIsForgotten(t *testing.T) {
	d := deskOf(t, Options{}, queue)
	for range 2 {
		if _, failure := d.ask(t.Context(), t, request("q", "1", "a", "1")); failure != nil {
			t.Fatal(failure)
		}
	}
	if d.call.Delay() != 100*time.Millisecond {
		t.Fatalf("held for %v", d.call.Delay())
	}
	if _, err := d.Decide(t.Context(), &d.call, []byte("\xff")); err == nil || d.call.Delay() != 0 {
		t.Errorf("%v, held for %v", err, d.call.Delay())
	}
	d.Abandon(t.Context(), &d.call)
	d.expect(t, "api: a=1", "OK: OK 5/HOUR left=2 reset=1770")
	d.Abandon(t.Context(), &d.call)
	d.expect(t, "api: a=1", "OK: OK 5/HOUR left=1 reset=1770")
}

// In global shadow mode no answer is delayed.
func TestShadowDoesNotDelay(t *testing.T) {
	d := deskOf(t, Options{Shadow: true}, queue)
	for range 6 {
		resp, failure := d.ask(t.Context(), t, request("q", "1"))
		if failure != nil || resp.OverallCode != pb.RateLimitResponse_OK || d.call.Delay() != 0 {
			t.Fatalf("%v, %v, held for %v", resp, failure, d.call.Delay())
		}
	}
}

// JSON delays its answers too.
func TestHoldJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := deskOf(t, Options{}, queue)
		post := func(ctx context.Context) (int, string) {
			w := httptest.NewRecorder()
			body := strings.NewReader(`{"domain":"api","descriptors":[{"entries":[{"key":"q","value":"1"}]}]}`)
			d.JSON().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/json", body))
			return w.Code, w.Body.String()
		}
		gone, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		for i, step := range []struct {
			ctx   context.Context
			took  time.Duration
			empty bool
		}{{t.Context(), 0, false}, {gone, 10 * time.Millisecond, true}, {t.Context(), 100 * time.Millisecond, false}} {
			began := time.Now()
			code, body := post(step.ctx)
			if code != http.StatusOK || time.Since(began) != step.took || (body == "") != step.empty {
				t.Errorf("step %d: %d %s after %v", i, code, body, time.Since(began))
			}
		}
	})
}

// Invalid requests to /json, and requests for unknown paths.
func TestJSONErrors(t *testing.T) {
	d := deskOf(t, Options{}, queue)
	for _, step := range []struct {
		method, body string
		status       int
		says         string
	}{
		{"POST", ``, 400, "the body ends where an object belongs"},
		{"POST", `{`, 400, "the body ends where a field"},
		{"POST", `{"domain":"api"`, 400, "the body ends where a comma"},
		{"POST", `[]`, 400, "an array where an object belongs"},
		{"POST", `{"domain":5}`, 400, "domain: a number where a string belongs"},
		{"POST", `{"domain":"api","extra":1}`, 400, `unknown field \"extra\"`},
		{"POST", `{"domain":"api","descriptors":[{"entries":[{"key":"q","values":"1"}]}]}`, 400, `descriptors[0].entries[0]: unknown field`},
		{"POST", `{"domain":"api","hits_addend":-1}`, 400, `hits_addend: \"-1\" is not a whole number from 0 to 4294967295`},
		{"POST", `{"domain":"api","descriptors":[{"hitsAddend":"18446744073709551615"}]}`, 400, "the most is 4294967295"},
		{"POST", `{"domain":"api","descriptors":[{"limit":{"unit":"FORTNIGHT"}}]}`, 400, "FORTNIGHT"},
		{"POST", `{"domain":"","descriptors":[]}`, 400, "rate limit domain must not be empty"},
		{"POST", `{"domain":"api"}`, 400, "rate limit descriptor list must not be empty"},
		{"POST", `{"domain":"\ud800"}`, 400, "half of a surrogate pair"},
		{"POST", `{"domain":"api","descriptors":[{}]} x`, 400, "something follows"},
		{"POST", `{"domain":"` + strings.Repeat("x", maxBody) + `"}`, 413, "larger than 1048576 bytes"},
		{"GET", ``, 405, "use POST"},
		{"POST", `{"domain":"api","descriptors":[{"entries":[{"key":"a","value":"\u00fc\ud83d\ude00"}],"hits_addend":"2"}],"hitsAddend":null}`, 200, `"limitRemaining":3`},
	} {
		w := httptest.NewRecorder()
		d.JSON().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), step.method, "/json", strings.NewReader(step.body)))
		if w.Code != step.status || !strings.Contains(w.Body.String(), step.says) || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %.80s: %d %s, want %d and %q", step.method, step.body, w.Code, w.Body, step.status, step.says)
		}
	}
}

// A request with too many descriptors is refused before anything is charged.
func TestManyDescriptors(t *testing.T) {
	d := deskOf(t, Options{}, queue)
	for n, want := range map[int]string{limiter.MaxDescriptors: "", limiter.MaxDescriptors + 1: "more than 1000 descriptors; send several requests"} {
		var pairs []string
		for range n {
			pairs = append(pairs, "x", "1")
		}
		_, failure := d.ask(t.Context(), t, request(pairs...))
		if got := failure.text(); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

// text returns the message of an error; "" for none.
func (e *Error) text() string {
	if e == nil {
		return ""
	}
	return e.Message
}

// Malformed bytes are refused.
func TestMalformed(t *testing.T) {
	d := deskOf(t, Options{}, queue)
	for _, data := range []string{"\x0a", "\x0a\x05api", "\x12\x01", "\x12\x02\x0a\x05", "\xff", "\x0c"} {
		_, err := d.Decide(t.Context(), &d.call, []byte(data))
		failure, ok := errors.AsType[*Error](err)
		if !ok || failure.Code != invalidArgument || !strings.HasPrefix(failure.Message, "malformed request") {
			t.Errorf("%q: %v", data, err)
		}
	}
	if got := d.Stats(); got.ServiceErrors != 6 {
		t.Errorf("%+v", got)
	}
}

// Requests that pass only because of global shadow mode are counted.
func TestStats(t *testing.T) {
	d := deskOf(t, Options{Shadow: true}, queue)
	for range 3 {
		if _, failure := d.ask(t.Context(), t, request("a", "1", "x", "1")); failure != nil {
			t.Fatal(failure)
		}
	}
	d.expect(t, "api hits=9: a=1", "OK: OVER 5/HOUR left=2 reset=1770")
	if got := d.Stats(); got != (Stats{Shadowed: 1}) {
		t.Errorf("%+v", got)
	}
}
