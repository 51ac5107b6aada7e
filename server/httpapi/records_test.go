package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/records/inforce"
	"stint/rule/rulefile"
	"stint/store/memory"
)

const recordRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {name: mine, requests: 2, per: 1h}
  - key: remote_address
    rate_limit: {name: addresses, requests: 2, per: 1h}
http:
  rate_limits:
    - actions: [{api_key: {header_name: x-api-key, from: records, invalid: deny}}]
`

func withRecords(t *testing.T, all ...records.Record) (*limiter.Limiter, *inforce.Records) {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(recordRules)})
	if err != nil {
		t.Fatal(err)
	}
	r := samples.Records(t, all...)
	return limiter.New(memory.New(memory.Options{}), table, limiter.Options{Records: r}), r
}

// A check of a banned subject or address says so, and until when.
func TestCheckBanned(t *testing.T) {
	l, _ := withRecords(t,
		records.Ban{Subject: "user=1"}, records.Ban{Subject: "user=2", Until: time.Now().Add(time.Hour).Truncate(time.Second)},
		records.Ban{Network: netip.MustParsePrefix("2001:db8::/32")})
	traffic := NewTraffic(l, TrafficOptions{})
	for body, want := range map[string]string{
		checkOf("user", "1"): `{"allowed":false,"rule":"ban","limit":0,"remaining":0,"retry_after_ms":-1,"reset_after_ms":0,"delay_ms":0,"degraded":false,"over":false,"reason":"banned",` +
			`"results":[{"allowed":false,"rule":"ban","limit":0,"remaining":0,"retry_after_ms":-1,"reset_after_ms":0,"delay_ms":0,"degraded":false,"over":false,"reason":"banned"}]}`,
		checkOf("user", "2"):                                             `"retry_after_ms":35`,
		checkOf("remote_address", "2001:db8::/64"):                       `"reason":"banned"`,
		checkOf("remote_address", "2001:db8::1"):                         `"reason":"banned"`,
		checkOf("remote_address", "192.0.2.1"):                           `"allowed":true`,
		checkOf("user", "3"):                                             `"allowed":true`,
		strings.Replace(checkOf("user", "1"), `"cost":1`, `"cost":0`, 1): `"allowed":true`, // a look
	} {
		var resp Response
		traffic.Serve(t.Context(), &Request{Method: "POST", Path: CheckPath, Header: headersForTest("application/json"), Body: []byte(body)}, &resp)
		if resp.Status != 200 || !strings.Contains(string(resp.Body), want) {
			t.Errorf("%s: %d %s, want %s", body, resp.Status, resp.Body, want)
		}
	}
}

func checkOf(key, value string) string {
	return `{"domain":"api","descriptors":[{"entries":[{"key":"` + key + `","value":"` + value + `"}]}],"cost":1}`
}

// A proxy gets 403 for a banned client, 401 for an API key that is not valid, and the numbers of an
// override.
func TestAuthRecords(t *testing.T) {
	text, key := samples.Key(t, "user=42")
	bannedText, bannedKey := samples.Key(t, "user=1")
	l, r := withRecords(
		t, key, bannedKey, records.Ban{Subject: "user=1", Until: time.Now().Add(time.Hour)}, records.Ban{Network: netip.MustParsePrefix("192.0.2.0/24")},
		records.Override{Target: "user=42", Rule: "mine", Requests: 9})
	traffic := NewTraffic(l, TrafficOptions{Auth: AuthOptions{Trusted: []netip.Prefix{netip.PrefixFrom(proxyPeer, 32)}, Domain: "api", APIKeys: r.Identify}})
	for _, tt := range []struct {
		lines  []string
		status int
		field  string // and its beginning
		value  string
		body   string
	}{
		{[]string{"X-Forwarded-For: 198.51.100.1", "X-Api-Key: " + text}, 200, "RateLimit-Policy", `"mine";q=9;w=3600`, ""},
		{[]string{"X-Forwarded-For: 198.51.100.1", "X-Api-Key: " + bannedText}, 403, "Retry-After", "3", `"code":"banned"`},
		{[]string{"X-Forwarded-For: 192.0.2.9"}, 403, "Retry-After", "", `"code":"banned"`},
		{[]string{"X-Forwarded-For: 198.51.100.1", "X-Api-Key: x"}, 401, "Www-Authenticate", "ApiKey", `"code":"unauthorized"`},
		{[]string{"X-Forwarded-For: 198.51.100.1"}, 200, "Retry-After", "", ""},
	} {
		var resp Response
		traffic.Serve(t.Context(), proxyAsks("", "GET /", tt.lines...), &resp)
		got := field(&resp, tt.field)
		if resp.Status != tt.status || !strings.HasPrefix(got, tt.value) || tt.value == "" && got != "" || !strings.Contains(string(resp.Body), tt.body) {
			t.Errorf("%v: %d %v %s", tt.lines, resp.Status, resp.Fields, resp.Body)
		}
		if tt.status == 403 && (field(&resp, "RateLimit") != "" || field(&resp, StatusHeader) != "403") {
			t.Errorf("%v: %v", tt.lines, resp.Fields)
		}
	}
}

// inspect shows the override of a key and the numbers of the rule, and limits how many there are.
func TestInspectOverride(t *testing.T) {
	until := time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)
	l, r := withRecords(t, records.Override{Target: "user=4*", Rule: "mine", Requests: 9, Until: until}, records.Override{Target: "user=7", Rule: "mine", Unlimited: true})
	admin := NewAdmin(l, AdminOptions{Overrides: r.Overrides})
	for user, want := range map[string]string{
		"42": `"config":{"algorithm":"fixed_window","requests":9,"per":"1h","align":"epoch"},"override":{"target":"user=4*","until":"2099-01-02T03:04:05Z","rule":{"algorithm":"fixed_window","requests":2,"per":"1h","align":"epoch"}},"limit":9,`,
		"7":  `"config":{"algorithm":"unlimited"},"override":{"target":"user=7","rule":{"algorithm":"fixed_window","requests":2,"per":"1h","align":"epoch"}},"limit":null,`,
		"5":  `"config":{"algorithm":"fixed_window","requests":2,"per":"1h","align":"epoch"},"limit":2,`,
	} {
		if status, answer, _ := call(t, admin, http.MethodPost, "/v1/inspect", checkOf("user", user)); status != 200 || !strings.Contains(answer, want) {
			t.Errorf("user %s: %d %s", user, status, answer)
		}
	}
	status, answer, _ := call(t, admin, http.MethodGet, "/v1/limits", "")
	if status != 200 || strings.Count(answer, `"overrides"`) != 1 || !strings.Contains(answer, `"overrides":2,`) {
		t.Errorf("%d %s", status, answer)
	}
}
