package why

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

var now = stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

func table(t *testing.T, text string) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return table
}

func name(r *rule.Rule) string {
	if r == nil {
		return ""
	}
	return r.Name
}

// randomLimit returns the words of a random rate_limit.
func randomLimit(r *rand.Rand) string {
	n := 1 + r.IntN(6)
	more := []string{
		"algorithm: fixed_window", "algorithm: fixed_window, align: first", "algorithm: fixed_window, overdraw: true",
		"algorithm: fixed_window, soft: 50%",
		"algorithm: token_bucket", fmt.Sprintf("algorithm: token_bucket, burst: %d", 1+r.IntN(9)), "algorithm: token_bucket, refill: step",
		"algorithm: token_bucket, overdraw: true", "algorithm: token_bucket, soft: 40%", "algorithm: token_bucket, count: responses, statuses: [5xx]",
		"algorithm: leaky_bucket", "algorithm: leaky_bucket, burst: 4", "algorithm: leaky_bucket, burst: 6, max_wait: 300ms",
		"algorithm: sliding_log", "algorithm: sliding_log, min_interval: 100ms", "algorithm: sliding_log, count_denied: true", "algorithm: sliding_log, overdraw: true",
		"algorithm: sliding_window", "algorithm: sliding_window, blocks: 5", "algorithm: sliding_window, blocks: 4, start: used_up",
		"algorithm: sliding_window, blocks: 2, overdraw: true", "unlimited",
	}
	words := more[r.IntN(len(more))]
	if words == "unlimited" {
		return "{unlimited: true}"
	}
	if r.IntN(20) == 0 && !strings.Contains(words, "burst") {
		n = 0
	}
	return fmt.Sprintf("{requests: %d, per: %s, %s}", n, []string{"1s", "2s", "10s"}[r.IntN(3)], words)
}

// randomRules returns a random rule file of the domain api, with the keys user, path and all.
func randomRules(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("domain: api\n")
	if r.IntN(4) == 0 {
		b.WriteString("atomic: false\n")
	}
	b.WriteString("descriptors:\n")
	for _, key := range []string{"user", "path", "all"} {
		fmt.Fprintf(&b, "  - key: %s\n    rate_limit: %s\n", key, randomLimit(r))
		switch r.IntN(6) {
		case 0:
			b.WriteString("    shadow_mode: true\n")
		case 1:
			b.WriteString("    quota_mode: true\n")
		}
	}
	return b.String()
}

// randomRequest returns a request of one to three descriptors. With twice, two may have the same key.
func randomRequest(r *rand.Rand, at stint.Instant, twice bool) *limiter.Request {
	req := &limiter.Request{Domain: "api", At: at}
	for _, key := range []string{"user", "path", "all"} {
		if r.IntN(2) == 0 || key == "all" && len(req.Descriptors) == 0 {
			value := string(rune('a' + r.IntN(2)))
			req.Descriptors = append(req.Descriptors, limiter.Descriptor{Entries: []rule.Entry{{Key: key, Value: value}}, Cost: uint32(r.IntN(4))})
		}
	}
	if twice && r.IntN(8) == 0 {
		req.Descriptors = append(req.Descriptors, req.Descriptors[0])
	}
	return req
}

// TestTryForetells decides random requests by random rules twice: once after a trial and once without.
// The decisions must be the same, because a trial takes nothing, and what the trial has foretold.
func TestTryForetells(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 22))
		text := randomRules(r)
		with, without := triedLimiter(t, text), triedLimiter(t, text)
		at := now
		for step := range 60 {
			at = at.Add(time.Duration(r.IntN(700)) * time.Millisecond)
			req := randomRequest(r, at, !strings.Contains(text, "mode: true") && !strings.Contains(text, "atomic: false"))
			trial, err := Explain(t.Context(), with, req)
			if err != nil {
				t.Fatalf("seed %d, step %d: %v\n%s", seed, step, err, text)
			}
			var got, want limiter.Verdict
			if err := with.Decide(t.Context(), req, &got); err != nil {
				t.Fatalf("seed %d, step %d: %v\n%s", seed, step, err, text)
			}
			if err := without.Decide(t.Context(), req, &want); err != nil {
				t.Fatal(err)
			}
			if a, b := shownOf(&got), shownOf(&want); a != b {
				t.Fatalf("seed %d, step %d: after a trial the decision is\n%swithout one\n%s%s", seed, step, a, b, text)
			}
			if a, b := shownOf(&trial.Verdict), shownOf(&want); a != b {
				t.Fatalf("seed %d, step %d: the trial foretold\n%sthe decision is\n%s%s%+v", seed, step, a, b, text, req.Descriptors)
			}
		}
	}
}

func triedLimiter(t *testing.T, text string) *limiter.Limiter {
	t.Helper()
	return limiter.New(memory.New(memory.Options{Budget: 1 << 20}), table(t, text), limiter.Options{})
}

// shownOf returns what a trial foretells of a verdict: all but the numbers of limits that count a denied
// try itself.
func shownOf(v *limiter.Verdict) string {
	var b strings.Builder
	exact := true
	for i := range v.Asked {
		a := &v.Asked[i]
		fmt.Fprintf(&b, "  %s: %v, delay %v, over %v", name(a.Rule), a.Allowed, a.Delay, a.Over)
		if s := a.Rule.Limit.Spec(); !s.Overdraw && !s.CountDenied && !s.StartUsedUp || v.Allowed && a.Allowed {
			fmt.Fprintf(&b, ", %d of %d", a.Remaining, a.Limit)
			fmt.Fprintf(&b, ", retry %v", a.RetryAfter)
			if !s.Reserve {
				fmt.Fprintf(&b, ", reset %v", a.ResetAfter)
			}
		} else {
			exact = false
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "allowed %v, over %v", v.Allowed, v.Over)
	if exact {
		fmt.Fprintf(&b, " by %s, retry %v", name(v.Rule), v.RetryAfter)
	}
	return b.String() + "\n"
}
