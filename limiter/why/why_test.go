package why_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/limiter"
	"stint/limiter/why"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

var now = stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// limits are the words of limits beside requests and per.
var limits = []string{
	"algorithm: fixed_window", "algorithm: fixed_window, align: first", "algorithm: fixed_window, overdraw: true", "algorithm: fixed_window, soft: 50%",
	"algorithm: token_bucket", "algorithm: token_bucket, burst: 3", "algorithm: token_bucket, burst: 9", "algorithm: token_bucket, refill: step",
	"algorithm: token_bucket, overdraw: true", "algorithm: token_bucket, soft: 40%",
	"algorithm: leaky_bucket", "algorithm: leaky_bucket, burst: 4", "algorithm: leaky_bucket, burst: 6, max_wait: 300ms",
	"algorithm: sliding_log", "algorithm: sliding_log, min_interval: 200ms", "algorithm: sliding_log, count_denied: true", "algorithm: sliding_log, overdraw: true",
	"algorithm: sliding_window", "algorithm: sliding_window, blocks: 5", "algorithm: sliding_window, blocks: 2, overdraw: true",
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
		words := limits[r.IntN(len(limits))]
		requests := 1 + r.IntN(6)
		if r.IntN(20) == 0 && !strings.Contains(words, "burst") {
			requests = 0
		}
		fmt.Fprintf(&b, "  - key: %s\n    rate_limit: {requests: %d, per: %s, %s}\n", key, requests, []string{"1s", "2s", "10s"}[r.IntN(3)], words)
		switch r.IntN(8) {
		case 0:
			b.WriteString("    shadow_mode: true\n")
		case 1:
			b.WriteString("    quota_mode: true\n")
		}
	}
	return b.String()
}

func randomRequest(r *rand.Rand, at stint.Instant) *limiter.Request {
	req := &limiter.Request{Domain: "api", At: at}
	for _, key := range []string{"user", "path", "all"} {
		if r.IntN(2) == 0 || key == "all" && len(req.Descriptors) == 0 {
			req.Descriptors = append(req.Descriptors, limiter.Descriptor{Entries: []rule.Entry{{Key: key, Value: "a"}}, Cost: uint32(r.IntN(4))})
		}
	}
	return req
}

// step is one request of a history.
type step struct{ req *limiter.Request }

// history is a rule file and requests under it. It can be repeated.
type history struct {
	text  string
	steps []step
}

func newHistory(seed uint64) *history {
	r := rand.New(rand.NewPCG(seed, 12))
	h := &history{text: randomRules(r)}
	at := now
	for range 1 + r.IntN(25) {
		at = at.Add(time.Duration(r.IntN(500)) * time.Millisecond)
		h.steps = append(h.steps, step{randomRequest(r, at)})
	}
	return h
}

// run decides all requests but the last on a new store.
func (h *history) run(t *testing.T) (*limiter.Limiter, *rule.Table) {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(h.text)})
	if err != nil {
		t.Fatalf("%v\n%s", err, h.text)
	}
	l := limiter.New(memory.New(memory.Options{Budget: 1 << 20}), table, limiter.Options{})
	for _, s := range h.steps[:len(h.steps)-1] {
		h.decide(t, l, s.req)
	}
	return l, table
}

func (h *history) last() *limiter.Request { return h.steps[len(h.steps)-1].req }

func (h *history) decide(t *testing.T, l *limiter.Limiter, req *limiter.Request) bool {
	t.Helper()
	var v limiter.Verdict
	if err := l.Decide(context.Background(), req, &v); err != nil {
		t.Fatalf("%v\n%s", err, h.text)
	}
	return v.Allowed
}

// apply makes a change of the table, with a number that is off by less than the one that is enough.
func apply(t *testing.T, table *rule.Table, c why.Change, name string, less uint64) bool {
	t.Helper()
	for _, r := range table.Rules() {
		if r.Name != name {
			continue
		}
		spec := r.Limit.Spec()
		switch c.Kind {
		case why.Requests, why.Burst:
			n := c.Numbers
			if n.Requests > 0 {
				n.Requests -= uint32(less)
			}
			if n.Burst > 0 {
				n.Burst -= uint32(less)
			}
			if n.Requests+n.Burst == 0 || c.To-less == c.From {
				return false // this is the limit as it is
			}
			made, err := r.With(n)
			if err != nil {
				t.Fatal(err)
			}
			made.Base = nil
			*r = *made
			return true
		case why.MaxWait:
			spec.MaxWait = c.After - time.Duration(less)*time.Microsecond
		case why.MinInterval:
			if spec.MinInterval = c.After + time.Duration(less)*time.Microsecond; spec.MinInterval == c.Before {
				return false
			}
		}
		r.Limit = stint.MustLimit(spec)
		r.Stored = r.Limit
		return true
	}
	t.Fatalf("no rule %s", name)
	return false
}

// TestSmallestChange explains the last request of random histories, and repeats each history with what the
// explanation says: after the wait, or with the changes, the request passes. With one unit less than a
// change says it does not.
func TestSmallestChange(t *testing.T) {
	kinds := map[why.Kind]int{}
	for seed := range uint64(1000) {
		h := newHistory(seed)
		l, _ := h.run(t)
		e, err := why.Explain(context.Background(), l, h.last())
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, h.text)
		}
		fail := func(format string, args ...any) {
			t.Fatalf("seed %d: "+format+"\nrequest %+v\nexplanation: wait %v, smallest %+v, limits %+v\n%s",
				append(append([]any{seed}, args...), h.last().Descriptors, e.Wait, e.Smallest, e.Limits, h.text)...)
		}
		if e.Passes() {
			if len(e.Smallest) > 0 || e.Wait != 0 || !h.decide(t, l, h.last()) {
				fail("it passes, and needs a change")
			}
			continue
		}
		if l, _ := h.run(t); e.Wait != stint.Never {
			later := *h.last()
			later.At = later.At.Add(e.Wait)
			if !h.decide(t, l, &later) {
				fail("it does not pass after the wait")
			}
			kinds[why.Wait]++
		}
		if len(e.Smallest) == 0 {
			fail("it does not pass, and no change helps")
		}
		for off := range e.Smallest {
			kinds[e.Smallest[off].Kind]++
		}
		for off := -1; off < len(e.Smallest); off++ { // -1: the changes as they are; else one of them is too small
			l, table := h.run(t)
			same := true
			for i, c := range e.Smallest {
				less := uint64(0)
				if i == off {
					less = 1
				}
				same = apply(t, table, c, e.Asked[c.Limit].Rule.Name, less) && same
			}
			if off >= 0 && !same {
				continue
			}
			if h.decide(t, l, h.last()) != (off < 0) {
				fail("with the changes, number %d too small, it passes: %v", off, off >= 0)
			}
		}
	}
	for _, k := range []why.Kind{why.Wait, why.Requests, why.Burst, why.MaxWait, why.MinInterval} {
		if kinds[k] == 0 {
			t.Errorf("no history needed the change %s", k)
		}
	}
}
