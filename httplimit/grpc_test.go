package httplimit_test

import (
	"errors"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"stint/httplimit"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/store/memory"
)

// TestGRPC checks that a gRPC call that is denied gets its status in the header of an answer without a
// body, with HTTP status 200, and that others do not.
func TestGRPC(t *testing.T) {
	const file = `
domain: api
deny: [{header: x-out, values: ["1"]}]
descriptors: [{key: path, rate_limit: {requests: 1, per: 1h, name: n, algorithm: fixed_window, align: first}}]
http: {rate_limits: [{actions: [{path: {}}]}]}
`
	l := limiter.New(memory.New(memory.Options{}), newLimiter(t, nil, file).Table(), limiter.Options{
		Records: samples.Records(t, records.Ban{Network: netip.MustParsePrefix("198.51.100.0/24"), Until: time.Now().Add(59*time.Minute + 30*time.Second)}),
	})
	h := httplimit.New(l, "api", httplimit.Options{})(ok)
	call := func(from, path, media, out string) *http.Response {
		r := request(from, path, "Content-Type", media, "X-Out", out)
		r.Method = http.MethodPost
		return send(h, r).Result()
	}
	call("192.0.2.1:1", "/s/m", "application/grpc", "")
	for _, tt := range []struct {
		from, media, out string
		status           int
		grpc, message    string
	}{
		{"192.0.2.1:1", "application/grpc", "", 200, "8", "Request quota exceeded. Wait 1 hour and try again."},
		{"192.0.2.1:1", "application/grpc+proto", "", 200, "8", "Request quota exceeded. Wait 1 hour and try again."},
		{"192.0.2.1:1", "application/grpc-web-text", "", 200, "8", "Request quota exceeded. Wait 1 hour and try again."},
		{"192.0.2.1:1", "application/grpc", "1", 200, "7", "This client is not served."},
		{"198.51.100.1:1", "application/grpc", "", 200, "7", "This client is banned. Wait 1 hour and try again."},
		{"192.0.2.1:1", "application/grpcx", "", 429, "", ""},
		{"192.0.2.1:1", "application/json", "", 429, "", ""},
	} {
		resp := call(tt.from, "/s/m", tt.media, tt.out)
		if resp.StatusCode != tt.status || resp.Header.Get("Grpc-Status") != tt.grpc || resp.Header.Get("Grpc-Message") != tt.message {
			t.Errorf("%+v: %d %v", tt, resp.StatusCode, resp.Header)
		}
		if tt.grpc != "" && (resp.Header.Get("Content-Type") != tt.media || resp.ContentLength > 0) {
			t.Errorf("%+v: %v, %d bytes", tt, resp.Header, resp.ContentLength)
		}
		if tt.grpc == "8" && resp.Header.Get("Retry-After") == "" {
			t.Errorf("%+v: no Retry-After: %v", tt, resp.Header)
		}
	}
	const denying = "domain: api\ndescriptors: [{key: path, rate_limit: {requests: 1, per: 1h, on_store_failure: deny}}]\nhttp: {rate_limits: [{actions: [{path: {}}]}]}\n"
	h = byRules(t, broken{}, denying, httplimit.Options{OnError: func(_ *http.Request, err error) {
		if !errors.Is(err, errBroken) {
			t.Error(err)
		}
	}})
	if resp := call("192.0.2.1:1", "/s/m", "application/grpc", ""); resp.Header.Get("Grpc-Status") != "14" {
		t.Errorf("a store that is away: %v", resp.Header)
	}
}
