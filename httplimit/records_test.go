package httplimit_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stint/httplimit"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/records/inforce"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const recordRules = `
domain: api
exempt:
  - {cidrs: [192.0.2.0/24]}
descriptors:
  - key: user
    rate_limit: {requests: 2, per: 1h, name: mine}
  - key: plan
    descriptors:
      - key: user
        rate_limit: {requests: 7, per: 1h}
http:
  rate_limits:
    - actions: [{api_key: {header_name: x-api-key, from: records, plan_key: plan, invalid: deny}}]
`

func withRecords(t *testing.T, file string, r *inforce.Records, o httplimit.Options) http.Handler {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(file)})
	if err != nil {
		t.Fatal(err)
	}
	o.APIKeys = r.Identify
	return httplimit.New(limiter.New(memory.New(memory.Options{}), table, limiter.Options{Records: r}), "api", o)(ok)
}

// A banned client gets 403 with the envelope and the time to wait, and no numbers of a limit. A ban
// comes before lists, and applies where no limit does.
func TestBans(t *testing.T) {
	text, key := samples.Key(t, "user=42")
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	h := withRecords(t, recordRules, samples.Records(
		t, key,
		records.Ban{Subject: "user=42", Until: end},
		records.Ban{Network: netip.MustParsePrefix("192.0.2.0/28")},
		records.Ban{Network: netip.MustParsePrefix("2001:db8::/48"), Until: time.Now().Add(time.Minute).Truncate(time.Second)},
	), httplimit.Options{})
	for _, tt := range []struct {
		name, from, header, value string
		want                      string // parts of the answer
		seconds                   int    // Retry-After, about
	}{
		{"a subject", "198.51.100.1:1", "X-Api-Key", text, fmt.Sprintf(`"code":"banned","message":"This client is banned. Wait 1 hour and try again.","context":{"renewal":%d}`, end.Unix()), 3600},
		{"an address, for ever", "192.0.2.1:1", "", "", `{"error":{"code":"banned","message":"This client is banned.","context":{}}}`, 0},
		{"a network", "[2001:db8::1]:1", "", "", `"code":"banned"`, 60},
		{"problem details", "[2001:db8::1]:1", "Accept", "application/problem+json", `"title":"Forbidden","status":403,"detail":"This client is banned. Wait `, 60},
		{"its code", "[2001:db8::1]:1", "Accept", "application/problem+json", `,"code":"banned"}`, 60},
		{"with a bad key", "192.0.2.1:1", "X-Api-Key", "x", `"code":"banned"`, 0},
	} {
		w := get(h, tt.from, "/", tt.header, tt.value)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), tt.want) || field(w, "RateLimit") != "" {
			t.Errorf("%s: %s", tt.name, dump(w))
		}
		wait := field(w, "Retry-After")
		if d, _ := time.ParseDuration(wait + "s"); tt.seconds == 0 && wait != "" || tt.seconds > 0 && (int(d.Seconds()) > tt.seconds || int(d.Seconds()) < tt.seconds-30) {
			t.Errorf("%s: Retry-After %q, want about %d", tt.name, wait, tt.seconds)
		}
	}
	if w := get(h, "192.0.2.17:1", "/"); w.Code != http.StatusOK {
		t.Errorf("a neighbor: %s", dump(w))
	}
}

// Options.Denied sees the ban, and the header is set already.
func TestDeniedSeesBans(t *testing.T) {
	var seen limiter.Reason
	h := withRecords(t, recordRules, samples.Records(t, records.Ban{Network: netip.MustParsePrefix("192.0.2.1/32"), Until: time.Now().Add(time.Hour)}),
		httplimit.Options{Denied: func(w http.ResponseWriter, _ *http.Request, v *limiter.Verdict) {
			seen = v.Reason()
			w.WriteHeader(http.StatusTeapot)
		}})
	if w := get(h, "192.0.2.1:1", "/"); w.Code != http.StatusTeapot || field(w, "Retry-After") == "" || seen != limiter.ReasonBanned {
		t.Errorf("%s\n%s", seen, dump(w))
	}
}

// An API key identifies its client until it is revoked, and a key that is not valid is denied.
func TestAPIKeys(t *testing.T) {
	text, key := samples.Key(t, "user=42")
	proText, pro := samples.Key(t, "user=43")
	otherText, other := samples.Key(t, "org=1")
	made, _ := samples.Key(t, "user=44") // no record
	file := samples.File(t, key, pro, other, records.Subject{Name: "user=43", Kind: records.User, Plan: "pro"})
	h := withRecords(t, recordRules, inforce.NewRecords(file, inforce.RecordsOptions{}), httplimit.Options{})
	for _, tt := range []struct {
		key    string
		status int
		limit  string
	}{
		{text, 200, `"mine";q=2;w=3600`},
		{proText, 200, `"api/plan/user";q=7;w=3600`},
		{otherText, 200, ""}, // no user: no descriptor
		{"", 200, ""},
		{made, 401, ""},
		{text + "x", 401, ""},
		{strings.Repeat("x", 10_000), 401, ""},
	} {
		var header []string
		if tt.key != "" {
			header = []string{"X-Api-Key", tt.key}
		}
		w := get(h, "198.51.100.1:1", "/", header...)
		if w.Code != tt.status || field(w, "RateLimit-Policy") != tt.limit {
			t.Errorf("key %.9s: %s", tt.key, dump(w))
		}
		if tt.status == 401 && (field(w, "Www-Authenticate")+field(w, "WWW-Authenticate") != "ApiKey" || !strings.Contains(w.Body.String(), `"code":"unauthorized"`)) {
			t.Errorf("key %.9s: %s", tt.key, dump(w))
		}
		if strings.Contains(dump(w), tt.key) && tt.key != "" {
			t.Errorf("the answer shows the key: %s", dump(w))
		}
	}
	if _, err := file.Apply(t.Context(), records.Change{Edits: []records.Edit{{Delete: key.ID()}}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if w := get(h, "198.51.100.1:1", "/", "X-Api-Key", text); w.Code != 401 {
		t.Errorf("after it was revoked: %s", dump(w))
	}
}

// The header fields of a client with an override show its numbers.
func TestOverrideFields(t *testing.T) {
	text, key := samples.Key(t, "user=42")
	h := withRecords(t, recordRules, samples.Records(t, key, records.Override{Target: "user=42", Rule: "mine", Requests: 3, Per: 2 * time.Hour}), httplimit.Options{})
	for i, want := range []int{200, 200, 200, 429} {
		w := get(h, "198.51.100.1:1", "/", "X-Api-Key", text)
		if w.Code != want || field(w, "RateLimit-Policy") != `"mine";q=3;w=7200` || field(w, "X-RateLimit-Limit") != "3" {
			t.Errorf("request %d: %s", i, dump(w))
		}
	}
}
