package rule_test

import (
	"slices"
	"testing"
)

func TestAnswersCharge(t *testing.T) {
	for statuses, want := range map[string][][2]int{
		"401":             {{401, 401}},
		"[100, 599]":      {{100, 100}, {599, 599}},
		"[500-502, 401]":  {{401, 401}, {500, 502}},
		"[163-164, 4XX]":  {{163, 164}, {400, 499}},
		"[100-399, 5xx]":  {{100, 399}, {500, 599}},
		"[1xx, 2xx, 404]": {{100, 299}, {404, 404}},
	} {
		r := parse(t, "domain: d\ndescriptors: [{key: k, rate_limit: {requests: 1, per: 1s, count: responses, statuses: "+statuses+"}}]").Rules()[0]
		for status := -1000; status < 2000; status++ {
			in := slices.ContainsFunc(want, func(r [2]int) bool { return r[0] <= status && status <= r[1] })
			if r.Answers.Charges(status) != in {
				t.Errorf("%s: %d is charged: %v", statuses, status, !in)
			}
		}
	}
}

// An elastic limit has the cap of its file, and the pool or the gauge that its file names.
func TestElastic(t *testing.T) {
	table := parse(t, `
domain: d
descriptors:
  - key: user
    rate_limit: {requests: 7, per: 1s, algorithm: token_bucket, burst: 3, elastic: {from: all, upto: 250%}}
  - {key: any, value: all, rate_limit: {requests: 100, per: 1s, name: all}}
  - {key: batch, rate_limit: {requests: 4294967295, per: 1s, elastic: {from: load, below: 12.5%, upto: 10000%}}}
`)
	user, pool, batch := table.Rules()[0].Elastic, table.Rules()[1], table.Rules()[2].Elastic
	if s := user.Cap.Spec(); user.Pool != pool || user.Gauge != "" || s.Requests != 17 || s.Burst != 7 || pool.Elastic != nil {
		t.Errorf("%+v, %+v", user, s)
	}
	if s := batch.Cap.Spec(); batch.Pool != nil || batch.Gauge != "d" || batch.Below != 125_000 || s.Requests != 1<<32-1 {
		t.Errorf("%+v, %+v", batch, s)
	}
}
