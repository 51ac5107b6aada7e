package rulefile

import (
	"fmt"
	"testing"

	"stint"
	"stint/rule"
)

// The local limit is the share of rate and burst, divided by the nodes and rounded down.
func TestLocal(t *testing.T) {
	for _, test := range []struct {
		numbers, share string
		nodes          int
		want           *stint.Spec // nil: no local limit
	}{
		{"{unit: minute, requests_per_unit: 600}", "10%", 3, &stint.Spec{Requests: 20, Per: 60e9}},
		{"{unit: minute, requests_per_unit: 59}", "10%", 3, &stint.Spec{Requests: 1, Per: 60e9}},
		{"{unit: minute, requests_per_unit: 29}", "10%", 3, nil},
		{"{unit: minute, requests_per_unit: 600, soft: 50%}", "10%", 3, &stint.Spec{Requests: 20, Per: 60e9}},
		{"{unit: day, requests_per_unit: 0}", "100%", 1, nil},
		{"{unit: month, requests_per_unit: 100, time_zone: UTC}", "50%", 1, &stint.Spec{Requests: 50, Calendar: stint.Month}},
		{"{per: 1m, requests: 100, algorithm: sliding_window, blocks: 6, start: used_up}", "100%", 4, &stint.Spec{
			Algorithm: stint.SlidingWindow, Requests: 25, Per: 60e9, Blocks: 6,
		}},
		{"{per: 1m, requests: 100, algorithm: sliding_log, min_interval: 1s}", "50%", 5, &stint.Spec{
			Algorithm: stint.SlidingLog, Requests: 10, Per: 60e9, MinInterval: 1e9,
		}},
		// The share of a steady rate is exact to the microsecond, however slow it is.
		{"{per: 1m, requests: 10, algorithm: token_bucket, burst: 100}", "10%", 4, &stint.Spec{
			Algorithm: stint.TokenBucket, Requests: 1, Per: 240e9, Burst: 2,
		}},
		{"{per: 1s, requests: 7, algorithm: token_bucket, burst: 4}", "100%", 3, &stint.Spec{
			Algorithm: stint.TokenBucket, Requests: 1, Per: 428_572_000, Burst: 1,
		}},
		{"{per: 1s, requests: 600000, algorithm: token_bucket, burst: 40, count: responses, statuses: [401]}", "50%", 2, &stint.Spec{
			Algorithm: stint.TokenBucket, Requests: 1429, Per: 10_003_000, Burst: 10, Reserve: true,
		}},
		{"{per: 366d, requests: 1, algorithm: token_bucket, burst: 9}", "99%", 1, nil},
		{"{per: 1s, requests: 9, algorithm: token_bucket, burst: 9}", "10%", 1, nil},
		{"{per: 1m, requests: 30, algorithm: token_bucket, refill: step, burst: 60}", "10%", 2, &stint.Spec{
			Algorithm: stint.TokenBucket, Requests: 1, Per: 60e9, Burst: 3, Step: true,
		}},
		{"{per: 1s, requests: 10, algorithm: leaky_bucket, burst: 19, max_wait: 3s}", "20%", 2, &stint.Spec{
			Algorithm: stint.LeakyBucket, Requests: 1, Per: 1e9, Burst: 1, MaxWait: 3e9,
		}},
		{"{per: 1s, requests: 10, algorithm: leaky_bucket}", "99%", 1, nil},
		{"{unlimited: true}", "99%", 1, nil},
	} {
		file := fmt.Sprintf("domain: api\non_store_failure: local\nlocal_share: %s\nnodes: %d\ndescriptors: [{key: user, rate_limit: %s}]\n",
			test.share, test.nodes, test.numbers)
		table, err := Parse(Source{Name: "rules.yaml", Data: []byte(file)})
		if err != nil {
			t.Fatalf("%s: %v", test.numbers, err)
		}
		got := table.Rules()[0].Local
		switch {
		case test.want == nil && got != nil:
			t.Errorf("%s, %s of %d nodes: %+v, want none", test.numbers, test.share, test.nodes, got.Spec())
		case test.want != nil && (got == nil || !alike(got, stint.MustLimit(*test.want))):
			t.Errorf("%s, %s of %d nodes: %+v, want %+v", test.numbers, test.share, test.nodes, got, *test.want)
		}
	}
}

// alike compares all numbers of two limits, including those that Same ignores.
func alike(a, b *stint.Limit) bool {
	return a.ForStores().Same(b) && a.Spec().MinInterval == b.Spec().MinInterval && a.Spec().MaxWait == b.Spec().MaxWait
}

// Limits with other policies have no local limit.
func TestLocalNever(t *testing.T) {
	table, err := Parse(Source{Name: "rules.yaml", Data: []byte(`
domain: api
on_store_failure: local
local_share: 10%
nodes: 1
descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 100, on_store_failure: deny}}]
`)})
	if err != nil {
		t.Fatal(err)
	}
	if r := table.Rules()[0]; r.OnStoreFailure != rule.Deny || r.Local != nil {
		t.Errorf("%v with a share of %v", r.OnStoreFailure, r.Local)
	}
}

// Nodes learn from the terms of a rule with `gossip: ask` that they must ask.
func TestAskTerms(t *testing.T) {
	table, err := Parse(Source{Name: "rules.yaml", Data: []byte(`
domain: api
coordination: gossip
descriptors:
  - {key: a, rate_limit: {requests: 5, per: 1m, gossip: ask}}
  - {key: b, rate_limit: {requests: 5, per: 1m}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := table.Rules()[0].Terms, table.Rules()[1].Terms; !a.AskPeers || b.AskPeers {
		t.Errorf("the terms are %+v and %+v", a, b)
	}
}
