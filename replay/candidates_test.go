package replay

import (
	"fmt"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// candidateRules limit addresses, and paths of addresses beside them.
const candidateRules = `
domain: web
descriptors:
  - key: remote_address
    rate_limit: {%s}
  - key: path
    rate_limit: {per: 1m, requests: 12}
  - key: host
    value: all
    rate_limit: {per: 1h, requests: 100000, name: pool}
  - key: agent
    rate_limit: {per: 1h, requests: 10000, algorithm: token_bucket%s}
http:
  rate_limits:
    - actions: [{remote_address: {}}]
    - actions: [{path: {}}]
    - actions: [{request_headers: {header_name: user-agent, descriptor_key: agent}}]
`

// What a candidate would deny is within 1 % of what its limit denies after it has taken the candidate's
// numbers, on the same log, beside other limits that deny requests too.
func TestCandidatesPredictTheFlip(t *testing.T) {
	testkit.OneGoroutine(t)
	for _, tt := range []struct{ policy, limit, candidate, flipped string }{
		{"", "per: 1m, requests: 10", "requests: 20", "per: 1m, requests: 20"},
		{"", "per: 1m, requests: 20", "requests: 10", "per: 1m, requests: 10"},
		{"", "per: 1m, requests: 10", "algorithm: sliding_log", "per: 1m, requests: 10, algorithm: sliding_log"},
		{"", "per: 1m, requests: 10, algorithm: sliding_log", "algorithm: sliding_window, blocks: 6", "per: 1m, requests: 10, algorithm: sliding_window, blocks: 6"},
		{"", "per: 1m, requests: 10", "algorithm: token_bucket, burst: 5", "per: 1m, requests: 10, algorithm: token_bucket, burst: 5"},
		{"", "per: 1m, requests: 10, algorithm: token_bucket", "algorithm: leaky_bucket, burst: 5", "per: 1m, requests: 10, algorithm: leaky_bucket, burst: 5"},
		{"", "per: 1h, requests: 3, algorithm: token_bucket, count: responses, statuses: [4xx]", "requests: 2", "per: 1h, requests: 2, algorithm: token_bucket, count: responses, statuses: [4xx]"},
		{", elastic: {from: pool, upto: 200%}", "per: 1h, requests: 3, count: responses, statuses: [4xx]", "requests: 2", "per: 1h, requests: 2, count: responses, statuses: [4xx]"},
	} {
		run := func(limit string) *Report {
			return replayFile(t, "testdata/apache_access.log.gz", Options{Rules: parseRules(t, fmt.Sprintf(candidateRules, limit, tt.policy)), Reorder: DefaultReorder})
		}
		before, plain, after := run(tt.limit+", candidate: {"+tt.candidate+"}"), run(tt.limit), run(tt.flipped)
		if len(before.Candidates) != 1 || len(plain.Candidates) != 0 {
			t.Fatalf("%v: candidates %+v, without one %+v", tt, before.Candidates, plain.Candidates)
		}
		c, now, then := before.Candidates[0], plain.Rules[0], after.Rules[0]
		t.Logf("%s -> %s: now %d, then %d, after the flip %d", tt.limit, tt.candidate, c.Now.Denied, c.Then.Denied, then.Denied)
		if before.Denied != plain.Denied || before.Rules[0] != now || c.Now.Denied != now.Denied || c.Now.Allowed != now.Allowed {
			t.Errorf("%v: the candidate changes %+v to %+v", tt, now, before.Rules[0])
		}
		if off := 100 * (c.Then.Denied - then.Denied); then.Denied < 20 || off > then.Denied || -off > then.Denied {
			t.Errorf("%v: the candidate would have denied %d, after the flip the limit denied %d", tt, c.Then.Denied, then.Denied)
		}
		if c.Then.Denied+c.Then.Allowed != c.Now.Denied+c.Now.Allowed || c.Then.DeniedClients == 0 || c.Rule != then.Rule {
			t.Errorf("%v: %+v", tt, c)
		}
		var text strings.Builder
		if err := before.WriteText(&text); err != nil || !strings.Contains(text.String(), "web/remote_address then: "+c.Then.Limit[:20]) {
			t.Errorf("%v\n%s", err, text.String())
		}
	}
}
