package facts

import (
	"reflect"
	"strconv"
	"testing"

	"stint/limiter"
	"stint/rule"
)

// Decisions of a batch leave the facts that they leave one by one: counts, keys and denied requests.
func TestBatch(t *testing.T) {
	secret := NewSecret()
	for name, counts := range map[string]func(domain, rule string) Counts{
		"counted here": nil, "counted elsewhere": func(string, string) Counts { return Counts{Allowed: 3} },
	} {
		one, many := newWorld(t, threeRules, Options{Secret: secret, Counts: counts}), newWorld(t, threeRules, Options{Secret: secret, Counts: counts})
		var b limiter.Batch
		for i := range 40 {
			user, cost := strconv.Itoa(i%3), uint32(i%4)
			one.ask(cost, "user", user)
			if !many.limiter.Join(&b, "api", []rule.Entry{{Key: "user", Value: user}}, cost) {
				t.Fatal("a plain limit does not join")
			}
		}
		if err := many.limiter.DecideBatch(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		one.facts.Flush()
		many.facts.Flush()
		want, got := one.rule("api/user"), many.rule("api/user")
		for _, r := range []*Rule{&want, &got} {
			r.Peaks.Retries, r.Peaks.Passed = 0, 0 // these depend on the order in which shards are read
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, want)
		}
		if want.Looks == 0 || want.Denied == 0 && counts == nil || want.Keys != 3 {
			t.Errorf("%s: the test is not of use: %+v", name, want)
		}
	}
}
