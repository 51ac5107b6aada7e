package app

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
)

// flipRules returns the files of two domains: before has a limit with a candidate, and after the candidate in its
// place. Requests of the team closed are denied by another limit of the call.
func flipRules(words, limit, candidate, flipped string) (before, after string) {
	const rules = "domain: %s\ndescriptors:\n  - {key: user, rate_limit: {%s%s}}\n  - {key: team, value: closed, rate_limit: {per: 1d, requests: 0}}\n"
	return fmt.Sprintf(rules, "before", limit+", candidate: {"+candidate+"}", words), fmt.Sprintf(rules, "after", flipped, words)
}

// startFlip starts a service with the two domains of flipRules.
func startFlip(t *testing.T, store, before, after string) *service {
	t.Helper()
	folder := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "before.yaml"), []byte(before), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "after.yaml"), []byte(after), 0o600))
	return start(t, func(c *settings.Config) {
		c.Rules, c.StoreTimeout = []string{folder}, 20*time.Second
		c.Store, c.Namespace = store, strings.ReplaceAll(filepath.Base(t.Name()), " ", "_")
	})
}

// What a candidate denies is within 1 % of what its limit denies after it has taken the candidate's numbers, on
// the same requests, in every mode and store; and so are the keys that it denies.
func TestCandidatePredictsTheFlip(t *testing.T) {
	one, other := testkit.StartRedis(t), testkit.StartRedis(t)
	cluster := testkit.StartRedisCluster(t, 3)
	const shares = ", on_store_failure: local, local_share: 20%, nodes: 2"
	for _, tt := range []struct {
		name, words, limit, candidate, after, store string
	}{
		{"memory", "", "per: 1h, requests: 30", "requests: 60", "per: 1h, requests: 60", "memory"},
		{"redis", "", "per: 1h, requests: 60", "algorithm: token_bucket, burst: 20", "per: 1h, requests: 60, algorithm: token_bucket, burst: 20", one.URL()},
		{"redis log", "", "per: 1h, requests: 60, algorithm: token_bucket", "algorithm: sliding_log", "per: 1h, requests: 60, algorithm: sliding_log", one.URL()},
		{"redis window", "", "per: 1h, requests: 30, algorithm: sliding_log", "algorithm: sliding_window, blocks: 6, requests: 50", "per: 1h, requests: 50, algorithm: sliding_window, blocks: 6", one.URL()},
		{"cluster", "", "per: 1h, requests: 30", "requests: 60", "per: 1h, requests: 60", cluster.URL()},
		{"servers", "", "per: 1h, requests: 30", "requests: 60", "per: 1h, requests: 60", one.URL() + "," + strings.TrimPrefix(other.URL(), "redis://")},
		{"leased", ", coordination: leased", "per: 1h, requests: 40, algorithm: token_bucket", "requests: 80", "per: 1h, requests: 80, algorithm: token_bucket", one.URL()},
		{"leased window", ", coordination: leased", "per: 1d, requests: 80, algorithm: token_bucket", "algorithm: fixed_window", "per: 1d, requests: 80", one.URL()},
		{"leased shares", ", coordination: leased" + shares, "per: 1h, requests: 80, algorithm: token_bucket", "requests: 160", "per: 1h, requests: 160, algorithm: token_bucket", one.URL()},
		{"leased cluster", ", coordination: leased", "per: 1h, requests: 80, algorithm: token_bucket", "requests: 40", "per: 1h, requests: 40, algorithm: token_bucket", cluster.URL()},
		{"eventual", ", coordination: eventual", "per: 1h, requests: 30, algorithm: token_bucket", "requests: 60", "per: 1h, requests: 60, algorithm: token_bucket", one.URL()},
		{"eventual window", ", coordination: eventual", "per: 1d, requests: 60", "requests: 30", "per: 1d, requests: 30", one.URL()},
		{"gossip", ", coordination: gossip", "per: 1h, requests: 30", "algorithm: sliding_window", "per: 1h, requests: 30, algorithm: sliding_window", "memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := flipRules(tt.words, tt.limit, tt.candidate, tt.after)
			s := startFlip(t, tt.store, before, after)
			predicted, real := followFlip(t, s.limiter)
			if off := predicted.denied - real.denied; real.denied < 100 || off*100 > real.denied || -off*100 > real.denied {
				t.Errorf("the candidate denied %d requests, the limit after the flip %d", predicted.denied, real.denied)
			}
			if off := len(predicted.keys) - len(real.keys); off < -1 || off > 1 {
				t.Errorf("the candidate denied %d keys, the limit after the flip %d", len(predicted.keys), len(real.keys))
			}
			t.Logf("%d and %d requests of %d and %d keys", predicted.denied, real.denied, len(predicted.keys), len(real.keys))
		})
	}
}

// denials are the requests that a limit denied, and their keys.
type denials struct {
	denied int
	keys   map[string]bool
}

func (d *denials) add(key string) {
	d.denied++
	d.keys[key] = true
}

// followFlip decides the same requests in both domains, and returns what the candidate of the first and the
// limit of the second denied.
func followFlip(t *testing.T, l *limiter.Limiter) (predicted, real denials) {
	t.Helper()
	predicted.keys, real.keys = map[string]bool{}, map[string]bool{}
	r := rand.New(rand.NewPCG(11, 22))
	users := rand.NewZipf(r, 1.3, 2, 60)
	var v, w limiter.Verdict
	for i := range 3000 {
		req := limiter.Request{Domain: "before", Descriptors: []limiter.Descriptor{{Cost: 1, Entries: []rule.Entry{{Key: "user", Value: fmt.Sprint(users.Uint64())}}}}}
		if r.IntN(8) == 0 {
			req.Descriptors = append(req.Descriptors, limiter.Descriptor{Cost: 1, Entries: []rule.Entry{{Key: "team", Value: "closed"}}})
		}
		testkit.Must(t, l.Decide(t.Context(), &req, &v))
		flipped := req
		flipped.Domain = "after"
		testkit.Must(t, l.Decide(t.Context(), &flipped, &w))
		if len(v.Candidates) != 1 || v.Degraded || w.Degraded || v.Candidates[0].Degraded {
			t.Fatalf("request %d: %+v, degraded %v and %v", i, v.Candidates, v.Degraded, w.Degraded)
		}
		if len(req.Descriptors) > 1 {
			if !v.Candidates[0].Beside || v.Allowed || w.Allowed {
				t.Fatalf("request %d passes a limit of 0: %+v", i, v.Candidates)
			}
			continue
		}
		user := req.Descriptors[0].Entries[0].Value
		if !v.Candidates[0].Allowed {
			predicted.add(user)
		}
		if !w.Allowed {
			real.add(user)
		}
	}
	return predicted, real
}
