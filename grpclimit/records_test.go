package grpclimit_test

import (
	"net/netip"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"stint/grpclimit"
	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/rule/rulefile"
	"stint/store/memory"
)

// Banned callers get PERMISSION_DENIED with the time to wait, and those whose API key is not valid
// UNAUTHENTICATED.
func TestRecords(t *testing.T) {
	text, key := samples.Key(t, "user=42")
	bannedText, bannedKey := samples.Key(t, "user=1")
	r := samples.Records(t, key, bannedKey, records.Ban{Subject: "user=1", Until: time.Now().Add(time.Hour).Truncate(time.Second)},
		records.Ban{Network: netip.MustParsePrefix("192.0.2.0/24")}, records.Override{Target: "user=42", Rule: "api/user", Requests: 2})
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(`
domain: api
descriptors: [{key: user, rate_limit: {requests: 1, per: 1h}}]
http: {rate_limits: [{actions: [{api_key: {header_name: x-api-key, from: records, invalid: deny}}]}]}
`)})
	testkit.Must(t, err)
	l := limiter.New(memory.New(memory.Options{}), table, limiter.Options{Records: r})
	connect := serve(t, grpclimit.New(l, "api", grpclimit.Options{APIKeys: r.Identify}))
	for _, tt := range []struct {
		name     string
		from     from
		key      string
		codes    []codes.Code
		pushback string // of the last one
		wait     time.Duration
	}{
		{"override", "198.51.100.1:1", text, []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted}, "some", 0},
		{"a banned subject", "198.51.100.1:1", bannedText, []codes.Code{codes.PermissionDenied}, "-1", time.Hour},
		{"a banned address", "192.0.2.1:1", text, []codes.Code{codes.PermissionDenied}, "-1", 0},
		{"a bad key", "198.51.100.1:1", text + "x", []codes.Code{codes.Unauthenticated}, "", 0},
	} {
		cc := connect(tt.from)
		for i, want := range tt.codes {
			a := call(t.Context(), cc, "x-api-key", tt.key)
			if status.Code(a.err) != want || len(a.header.Get("ratelimit")) > 0 && want == codes.PermissionDenied {
				t.Errorf("%s, call %d: %v %v", tt.name, i, a.err, a.header)
			}
			if i+1 < len(tt.codes) {
				continue
			}
			if got := a.trailer.Get("grpc-retry-pushback-ms"); tt.pushback != "some" && (len(got) > 0) != (tt.pushback != "") || len(got) > 0 && tt.pushback == "-1" && got[0] != "-1" {
				t.Errorf("%s: pushback %q, want %q", tt.name, got, tt.pushback)
			}
			var wait time.Duration
			for _, detail := range status.Convert(a.err).Details() {
				if info, ok := detail.(*errdetails.RetryInfo); ok && want == codes.PermissionDenied {
					wait = info.GetRetryDelay().AsDuration()
				}
			}
			if wait > tt.wait || wait < tt.wait-time.Minute {
				t.Errorf("%s: wait %v, want about %v", tt.name, wait, tt.wait)
			}
		}
	}
}
