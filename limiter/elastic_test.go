package limiter

import (
	"testing"
	"time"

	"stint"
	"stint/rule"
	"stint/store/memory"
)

// elastic makes the first rule of a table elastic, with a cap of three times its limit.
func elastic(t *testing.T, table *rule.Table, e rule.Elastic) *rule.Table {
	t.Helper()
	r := table.Rules()[0]
	spec := r.Limit.Spec()
	spec.Requests, spec.Burst = 3*spec.Requests, 3*spec.Burst
	e.Cap = stint.MustLimit(spec)
	r.Elastic = &e
	return table
}

const pooled = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: total
    value: all
    rate_limit: {unit: hour, requests_per_unit: 100, name: total}
`

// elasticStep is one take of a user, or of the total, and the decision expected for it.
type elasticStep struct {
	user          string
	cost          uint32
	allowed, over bool
	remaining     int64
	rule          string
}

func runElastic(t *testing.T, l *Limiter, steps []elasticStep) {
	t.Helper()
	var v Verdict
	for i, s := range steps {
		key, value := "user", s.user
		if s.user == "all" {
			key = "total"
		}
		if err := l.Decide(ctx, describe(s.cost, key, value), &v); err != nil {
			t.Fatal(err)
		}
		if v.Allowed != s.allowed || v.Over != s.over || v.Remaining != s.remaining || name(v.Rule) != s.rule {
			t.Errorf("step %d: %+v by %q, want %+v", i, v.Decision, name(v.Rule), s)
		}
	}
}

// TestElasticPool: while nobody else asks, one user may take three times his own limit. In a busy
// system every user gets exactly his own limit.
func TestElasticPool(t *testing.T) {
	rules := table(t, pooled)
	store := memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})
	l := New(store, elastic(t, rules, rule.Elastic{Pool: rules.Rules()[1]}), Options{})
	runElastic(t, l, []elasticStep{
		{"a", 10, true, false, 0, "api/user"},
		{"a", 1, true, true, 0, "api/user"},
		{"a", 0, true, false, 0, "api/user"},
		{"a", 19, true, true, 0, "api/user"},
		{"a", 1, false, false, 0, "api/user"}, // 30 is three times 10
		{"all", 0, true, false, 70, "total"},  // a rule without values is the pool itself
		{"all", 70, true, false, 0, "total"},
		{"b", 10, true, false, 0, "api/user"}, // the full own limit, whatever the others took
		{"b", 1, false, false, 0, "api/user"},
		{"c", 11, false, false, 10, "api/user"},
		{"c", 9, true, false, 1, "api/user"},
		{"all", 1, false, false, 0, "total"},
	})
}

// TestElasticPoolInCall: a pool that the request itself matches is asked once, as the source of its
// borrowers, and its descriptor gets the pool's remaining units.
func TestElasticPoolInCall(t *testing.T) {
	rules := table(t, pooled)
	store := memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})
	l := New(store, elastic(t, rules, rule.Elastic{Pool: rules.Rules()[1]}), Options{})
	var v Verdict
	for i, step := range []struct {
		user      string
		cost      uint32
		allowed   bool
		own, pool int64
		asked     int
	}{
		{"a", 1, true, 9, 99, 1},
		{"a", 0, true, 9, 99, 2}, // a peek asks both
		{"a", 28, true, 9, 71, 1},
		{"a", 2, true, 7, 69, 1},
		{"a", 8, false, 7, 69, 1}, // the cap is 30
	} {
		if err := l.Decide(ctx, describe(step.cost, "user", step.user, "total", "all"), &v); err != nil {
			t.Fatal(err)
		}
		own, pool := v.Results[0], v.Results[1]
		if v.Allowed != step.allowed || own.Remaining != step.own || name(pool.Rule) != "total" || !pool.Allowed || pool.Over || pool.Remaining != step.pool || len(v.Asked) != step.asked {
			t.Errorf("step %d: %+v, pool %+v, %d asked, want %+v", i, v.Decision, pool, len(v.Asked), step)
		}
		sources := v.Sources(0)
		if len(sources) != 2 || sources[0].Limit != 30 || sources[1].Remaining != step.pool || len(v.Sources(1)) != 0 {
			t.Errorf("step %d has sources %+v", i, sources)
		}
	}
}

// TestElasticLoad: with a gauge at 20 % a limit of 100 lets 300 pass; at 90 %, or with a stale or
// unknown gauge, exactly 100.
func TestElasticLoad(t *testing.T) {
	const file = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 100}
`
	for _, test := range []struct {
		name string
		load func(string) (float64, bool)
		want int
	}{
		{"idle", func(string) (float64, bool) { return 0.2, true }, 300},
		{"just below", func(string) (float64, bool) { return 0.6999, true }, 300},
		{"at the level", func(string) (float64, bool) { return 0.7, true }, 100},
		{"busy", func(string) (float64, bool) { return 0.9, true }, 100},
		{"stale", func(string) (float64, bool) { return 0.2, false }, 100},
		{"nobody knows", nil, 100},
		{"the wrong gauge", func(name string) (float64, bool) { return 0.2, name != "cpu" }, 100},
	} {
		store := memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})
		l := New(store, elastic(t, table(t, file), rule.Elastic{Gauge: "cpu", Below: 700_000}), Options{Load: test.load})
		passed, over := 0, 0
		var v Verdict
		for range 400 {
			if err := l.Decide(ctx, describe(1, "user", "a"), &v); err != nil {
				t.Fatal(err)
			}
			if v.Allowed {
				passed++
			}
			if v.Over {
				over++
			}
		}
		if passed != test.want || over != test.want-100 || v.Limit != 100 {
			t.Errorf("%s: %d passed, %d of them over, limit %d, want %d", test.name, passed, over, v.Limit, test.want)
		}
	}
}

// TestElasticTwice: a key of two descriptors is asked once with both costs, whatever its sources.
func TestElasticTwice(t *testing.T) {
	for _, load := range []float64{0, 1} {
		rules := table(t, pooled)
		store := memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})
		l := New(store, elastic(t, rules, rule.Elastic{Gauge: "cpu", Below: rule.Whole / 2}), Options{
			Load: func(string) (float64, bool) { return load, true },
		})
		var v Verdict
		for i, allowed := range []bool{true, load == 0, false} {
			if err := l.Decide(ctx, describe(5+uint32(i), "user", "a", "user", "a"), &v); err != nil || v.Allowed != allowed {
				t.Errorf("load %v, call %d: %+v, %v", load, i, v.Decision, err)
			}
		}
	}
}

// TestElasticUndo: an undo of an elastic limit refunds the buckets that were charged, but not the
// part that the pool could not debit.
func TestElasticUndo(t *testing.T) {
	rules := table(t, pooled)
	store := memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})
	l := New(store, elastic(t, rules, rule.Elastic{Pool: rules.Rules()[1]}), Options{})
	decide := func(cost uint32, user string) *Verdict {
		t.Helper()
		v := new(Verdict)
		if err := l.Decide(ctx, describe(cost, "user", user), v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	left := func(user string, own, pool int64) {
		t.Helper()
		runElastic(t, l, []elasticStep{{user, 0, true, false, own, "api/user"}, {"all", 0, true, false, pool, "total"}})
	}
	inside, above := decide(10, "a"), decide(15, "a")
	left("a", 0, 75)
	for _, step := range []struct {
		v         *Verdict
		own, pool int64
	}{{above, 0, 90}, {inside, 10, 100}, {inside, 10, 100}} {
		if err := l.Undo(ctx, step.v); err != nil {
			t.Fatal(err)
		}
		left("a", step.own, step.pool)
	}
	if v := decide(30, "a"); !v.Allowed || !v.Over {
		t.Errorf("all of the cap is there again: %+v", v.Decision)
	}
	for i := range 21 { // 30 and 21 times 10: ten more than the largest debt of 100
		decide(10, "user"+string(rune('a'+i)))
	}
	cut := decide(10, "b")
	if err := l.Undo(ctx, cut); err != nil {
		t.Fatal(err)
	}
	left("b", 10, 0)
}

// TestElasticOps: a reset of an elastic key forgets its cap too, but not the pool, which everybody
// shares.
func TestElasticOps(t *testing.T) {
	rules := table(t, pooled)
	store := memory.New(memory.Options{Budget: 1, Clock: func() stint.Instant { return now }})
	l := New(store, elastic(t, rules, rule.Elastic{Pool: rules.Rules()[1]}), Options{})
	var v Verdict
	reset := describe(0, "user", "a")
	reset.Op = stint.Reset
	for _, req := range []*Request{describe(10, "user", "a"), describe(20, "user", "a"), reset} {
		if err := l.Decide(ctx, req, &v); err != nil || !v.Allowed {
			t.Fatal(v, err)
		}
	}
	runElastic(t, l, []elasticStep{
		{"all", 0, true, false, 70, "total"},
		{"a", 30, true, true, 10, "api/user"},
		{"all", 0, true, false, 40, "total"},
	})
	if wait := time.Hour; v.ResetAfter > wait {
		t.Errorf("reset after %v", v.ResetAfter)
	}
}
