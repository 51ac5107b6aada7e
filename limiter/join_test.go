package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/rule"
	"stint/store/memory"
)

// joinRules have plain limits, and others that no batch may have.
const joinRules = `
domain: api
descriptors:
  - key: plain
    rate_limit: {name: first, requests: 4, per: 1h}
  - key: plainer
    rate_limit: {name: second, requests: 5, per: 1h, algorithm: token_bucket, burst: 3}
    descriptors:
      - key: plain
        rate_limit: {name: third, requests: 3, per: 1h, algorithm: sliding_log}
  - key: recorded
    rate_limit: {requests: 4, per: 1h}
  - key: remote_address
    rate_limit: {requests: 4, per: 1h}
  - key: plain-two
    rate_limit: [{name: a, requests: 4, per: 1h}, {name: b, requests: 3, per: 1m}]
  - key: plain-shadow
    rate_limit: {requests: 2, per: 1h}
    shadow_mode: true
  - key: plain-soft
    rate_limit: {requests: 4, per: 1h, soft: 50%}
  - key: plain-free
    rate_limit: {unlimited: true}
  - key: plain-penalty
    rate_limit: {requests: 2, per: 1h, penalty: {after: 2, ladder: [1h]}}
  - key: plain-leased
    rate_limit: {requests: 4, per: 1h, coordination: leased}
  - key: plain-answers
    rate_limit: {requests: 4, per: 1h, count: responses, statuses: [200]}
`

// seen is what an observer gets of a decision.
func seen(v *Verdict) string {
	if v.Ban != "" {
		return v.Domain + " " + string(v.Ban) // its time is that of the machine
	}
	s := fmt.Sprintf("%s %+v %s %v %q %q %v %v", v.Domain, v.Decision, name(v.Rule), v.Unmatched, v.Ban, v.Reason(), v.Results, len(v.Asked))
	for i := range v.Asked {
		a := &v.Asked[i]
		s += fmt.Sprintf(" %d %s %d %+v %v", a.Descriptor, name(a.Rule), a.Cost, a.Decision, v.Entries(a.Descriptor))
		if t := v.Take(i); t != nil {
			s += fmt.Sprintf(" %q %p %d", t.Key, t.Limit, t.Cost)
		}
	}
	return s
}

// seenAll are the decisions that an observer gets, of batches too.
type seenAll struct{ all []string }

func (n *seenAll) Decided(v *Verdict, _ time.Duration, _ error) { n.all = append(n.all, seen(v)) }

func (n *seenAll) DecidedBatch(b *Batch, _ time.Duration, _ error) {
	for i := range b.Len() {
		v := b.Verdict(i)
		if r := b.Rule(i); r != v.Rule || v.Reason() != b.Reason(i) || v.Turn() != b.Turn(i) || *v.Take(0) != *b.Take(i) {
			n.all = append(n.all, "the verdict differs from the batch: "+seen(v))
		}
		n.all = append(n.all, seen(v))
	}
}

// Requests that join a batch are decided and observed as one by one, and only those join to which one plain limit
// applies, without lists and records.
func TestJoin(t *testing.T) {
	rules := table(t, joinRules)
	records := newFake()
	records.subjects["recorded=1"] = fakeKnown{banned: true}
	records.networks[netip.MustParsePrefix("192.0.2.1/32")] = time.Time{}
	open := func(o Observer) *Limiter {
		return New(memory.New(memory.Options{Clock: func() stint.Instant { return now }}), rules, Options{Observer: o, Records: records})
	}
	var wants, gots seenAll
	one, many := open(&wants), open(&gots)
	random := rand.New(rand.NewPCG(1, 2))
	var batch Batch
	var v Verdict
	joined := map[string]int{}
	flush := func() {
		if batch.Len() > 0 {
			testkit.Must(t, many.DecideBatch(ctx, &batch))
		}
		batch.Clear()
	}
	keys := []string{"plain", "plain", "plain", "plainer", "plainer/plain", "recorded", "remote_address", "plain-two", "plain-shadow", "plain-soft", "plain-free", "plain-penalty", "plain-leased", "plain-answers", "none", "plain/none"}
	for range 3000 {
		key, cost := keys[random.IntN(len(keys))], uint32(random.IntN(3))
		value := []string{"1", "2", "192.0.2.1", strings.Repeat("long", 100)}[random.IntN(4)]
		domain := []string{"api", "api", "api", "other"}[random.IntN(4)]
		var entries []rule.Entry
		for k := range strings.SplitSeq(key, "/") {
			entries = append(entries, rule.Entry{Key: k, Value: value})
		}
		req := Request{Domain: domain, Descriptors: []Descriptor{{Entries: entries, Cost: cost}}}
		testkit.Must(t, one.Decide(ctx, &req, &v))
		if many.Join(&batch, domain, entries, cost) {
			joined[domain+" "+key]++
		} else {
			flush()
			testkit.Must(t, many.Decide(ctx, &req, &v))
		}
		if batch.Len() == 20 {
			flush()
		}
	}
	flush()
	for i, want := range wants.all {
		if i >= len(gots.all) || gots.all[i] != want {
			t.Fatalf("decision %d:\n%v, want\n%s", i, gots.all[min(i, len(gots.all)):min(i+1, len(gots.all))], want)
		}
	}
	var names []string
	for name := range joined {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"api plain", "api plainer", "api plainer/plain"}; !slices.Equal(names, want) {
		t.Errorf("these joined: %q, want %q", names, want)
	}
}

// A list or a catalog for the domain keeps its requests out of batches, and a new table is in force for the next one.
func TestJoinSwapped(t *testing.T) {
	l := newLimiter(t, joinRules, nil)
	entries := []rule.Entry{{Key: "plain", Value: "1"}}
	var b Batch
	if !l.Join(&b, "api", entries, 1) {
		t.Fatal("a plain limit does not join")
	}
	l.Swap(table(t, strings.Replace(joinRules, "domain: api", "domain: api\nexempt: [{key: plain, values: [vip]}]", 1)))
	if l.Join(&b, "api", entries, 1) {
		t.Error("a request of a domain with lists joined")
	}
	l.Swap(table(t, strings.Replace(joinRules, "requests: 4", "requests: 9", 1)))
	if !l.Join(&b, "api", entries, 1) {
		t.Fatal("a plain limit does not join")
	}
	testkit.Must(t, l.DecideBatch(ctx, &b))
	if first, second := b.Decision(0).Limit, b.Decision(1).Limit; first != 4 || second != 9 {
		t.Errorf("limits %d and %d, want 4 and 9", first, second)
	}
}

// Why requests of a batch are denied: by their limits, or since the store could not decide.
func TestReasonInBatch(t *testing.T) {
	for _, tt := range []struct {
		d    stint.Decision
		want Reason
	}{
		{stint.Decision{Allowed: true}, ""},
		{stint.Decision{}, ReasonRateLimited},
		{stint.Decision{Degraded: true}, ReasonUnavailable},
		{stint.Decision{Allowed: true, Degraded: true}, ""},
	} {
		l := New(answering(tt.d), table(t, joinRules), Options{})
		var b Batch
		if !l.Join(&b, "api", []rule.Entry{{Key: "plain", Value: "1"}}, 1) {
			t.Fatal("a plain limit does not join")
		}
		testkit.Must(t, l.DecideBatch(ctx, &b))
		if got := b.Reason(0); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.d, got, tt.want)
		}
	}
}

// answering is a store that answers each take with one decision.
type answering stint.Decision

func (a answering) Decide(_ context.Context, call *stint.Call) error {
	call.SizeResults()
	for i := range call.Results {
		call.Results[i] = stint.Decision(a)
	}
	return nil
}
