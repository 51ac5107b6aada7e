package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records"
)

// What is left of a grant is shown as long as the store has its use, also when the history of the key has expired.
func TestGrantAfterHistory(t *testing.T) {
	redis := testkit.StartRedis(t)
	s := startWithRecords(t, `
domain: api
plans: {free: {calls: {requests: 1, per: 300d}}}
default_plan: free
descriptors: [{key: user, rate_limit: {plan: calls}}]
`, redis.URL(), nil)
	s.edit(records.Edit{Put: records.Grant{Subject: "user=x", Name: "gift", Limit: "calls", Units: 9, Priority: records.GrantPriority, Until: time.Now().Add(time.Hour)}})
	testkit.Until(t, "the grant counts", func() bool { return s.passed("x", 4) == 4 })
	left := func() string {
		_, body := s.admin(http.MethodGet, "/v1/usage/grants?subject=user%3Dx", "")
		_, rest, _ := strings.Cut(body, `"units":9,`)
		row, _, _ := strings.Cut(rest, `,"priority"`)
		return row
	}
	before := left()
	if before == "" || strings.Contains(before, `"used":0`) {
		t.Fatalf("the grant has %q", before)
	}
	key := redis.Do("KEYS", "*:usage:*")
	if redis.Do("DEL", key) != "1" {
		t.Fatalf("no history in %q", redis.Do("KEYS", "*"))
	}
	if got := left(); got != before {
		t.Errorf("the grant has %q, and %q while the key had a history", got, before)
	}
}
