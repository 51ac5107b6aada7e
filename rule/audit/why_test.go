package audit_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"stint/rule"
	"stint/rule/audit"
)

// Equal rates and bursts in different notation are "same", and nothing else is.
func TestCompareSameLimit(t *testing.T) {
	for name, tt := range map[string]struct{ old, now, want string }{
		"token bucket":     {"requests: 60, per: 1m, algorithm: token_bucket", "requests: 1, per: 1s, burst: 60, algorithm: token_bucket", "same"},
		"leaky bucket":     {"requests: 60, per: 1m, burst: 5, algorithm: leaky_bucket", "requests: 1, per: 1s, burst: 5, algorithm: leaky_bucket", "same"},
		"with a soft part": {"requests: 60, per: 1m, algorithm: token_bucket, soft: 50%", "requests: 120, per: 2m, burst: 60, algorithm: token_bucket, soft: 50%", "same"},
		"another burst":    {"requests: 60, per: 1m, algorithm: token_bucket", "requests: 1, per: 1s, burst: 61, algorithm: token_bucket", "looser"},
		"another rate":     {"requests: 60, per: 1m, algorithm: token_bucket", "requests: 1, per: 1001ms, burst: 60, algorithm: token_bucket", "stricter"},
		"in steps":         {"requests: 60, per: 1m, algorithm: token_bucket, refill: step", "requests: 1, per: 1s, burst: 60, algorithm: token_bucket, refill: step", "other"},
		"a window":         {"requests: 60, per: 1m", "requests: 1, per: 1s", "stricter"},
		"other words too":  {"requests: 60, per: 1m, algorithm: token_bucket", "requests: 1, per: 1s, burst: 60, algorithm: token_bucket, headers: none", "other"},
		"and a name":       {"requests: 60, per: 1m, algorithm: token_bucket, name: x", "requests: 1, per: 1s, burst: 60, algorithm: token_bucket, name: y", "anew"},
	} {
		t.Run(name, func(t *testing.T) {
			got := audit.Compare(parse(t, "old", descriptors(limit("u", tt.old))), parse(t, "new", descriptors(limit("u", tt.now))))
			if len(got) != 1 || fmt.Sprint(got[0].Effects) != "["+tt.want+"]" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A change that is neither looser nor stricter has a reason.
func TestCompareWhy(t *testing.T) {
	const ten = "requests: 10, per: 1m"
	for name, tt := range map[string]struct{ old, now, want string }{
		"less in the long run": {limit("u", ten), limit("u", "requests: 20, per: 1h"), "less passes in the long run, more at once"},
		"more in the long run": {limit("u", "requests: 20, per: 1h"), limit("u", ten), "more passes in the long run, less at once"},
		"counted otherwise":    {limit("u", ten), limit("u", ten+", align: first"), "the same rate and the same burst, but counted differently"},
		"answers":              {limit("u", ten), limit("u", ten+", headers: none"), "as much passes as before; answers look different"},
		"one in shadow":        {limit("v", ten), limit("v", ten) + "- {key: u, shadow_mode: true, rate_limit: {" + ten + "}}", "a limit in shadow mode denies nobody"},
		"durable":              {limit("u", ten), limit("u", ten+", durable: true"), "as much passes as before; what a crash may lose changes"},
		"more and more":        {limit("u", "requests: 20, per: 1h"), limit("u", ten+", headers: none"), "more passes in the long run, less at once; as much passes as before; answers look different"},
	} {
		t.Run(name, func(t *testing.T) {
			got := audit.Compare(parse(t, "old", descriptors(tt.old)), parse(t, "new", descriptors(tt.now)))
			if len(got) != 1 || got[0].Why != tt.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A new name of a limit or its domain makes counts start at zero, and the change says so.
func TestCompareRenamed(t *testing.T) {
	const (
		ten  = "requests: 10, per: 1m"
		more = "requests: 20, per: 1m"
		anew = "and the domain is part of every key: all counts start at zero, so each key has its full limit again, once"
	)
	shop := func(domain, descriptors string) string { return "domain: " + domain + "\ndescriptors:\n" + descriptors }
	three := limit("u", ten) + limit("v", ten+", name: orders") + limit("w=a*", ten)
	for name, tt := range map[string]struct {
		old, now string
		want     []string
	}{
		"a limit":   {shop("d", limit("u", ten+", name: x")), shop("d", limit("u", ten+", name: y")), []string{"anew: u: by y, and not by x: renamed, and the name is part of the key: each has up to 10 again, once"}},
		"named":     {shop("d", limit("u", ten)), shop("d", limit("u", ten+", name: y")), []string{"anew: u: by y, and not by d/u: named, and the name is part of the key: each has up to 10 again, once"}},
		"unnamed":   {shop("d", limit("u", ten+", name: y")), shop("d", limit("u", ten)), []string{"anew: u: by d/u, and not by y: no longer named, and the name is part of the key: each has up to 10 again, once"}},
		"in a list": {shop("d", "- {key: u, rate_limit: [{"+ten+", name: x}, {"+more+", name: y}]}"), shop("d", "- {key: u, rate_limit: [{"+ten+", name: x}, {"+more+", name: z}]}"), []string{"anew: u: by z, and not by y: renamed, and the name is part of the key: each has up to 20 again, once"}},
		"a domain": {shop("d", three), shop("e", three), []string{
			`stricter, anew: a new domain, with 3 rules; it replaces "d", ` + anew,
			`looser: the domain is gone (requests that still name it are not limited, see "e"), with 3 rules`,
		}},
		"a domain, and numbers": {shop("d", three), shop("e", limit("u", "requests: 5, per: 1m, name: y")+limit("v", ten+", name: orders")+limit("x", ten)), []string{
			`stricter, anew: a new domain, with 3 rules; it replaces "d", ` + anew,
			"stricter: u: by y, and not by d/u: fixed_window 10 per 1m -> fixed_window 5 per 1m (0.5 times the rate, 0.5 times at once)",
			"stricter: x: now limited by e/x: fixed_window 10 per 1m",
			"looser: w=a*: no longer limited by d/w=a*: fixed_window 10 per 1m",
			`looser: the domain is gone (requests that still name it are not limited, see "e"), with 3 rules`,
		}},
		"another domain": {shop("d", three), shop("e", limit("x", ten)), []string{
			"stricter: a new domain, with 1 rule", "looser: the domain is gone, with 3 rules",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := changes(audit.Compare(parse(t, "old", tt.old), parse(t, "new", tt.now)))
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// For random trees: exactly the changes that are "other" have a reason, "same" stands alone, and a
// changed key of a limit is "anew". A new name of the domain does not alter this for its limits.
func TestCompareExplainsAll(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("STINT_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("STINT_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	words := []string{
		"", ", name: x", ", name: y", ", headers: none", ", denial: {status: 503}", ", algorithm: token_bucket", ", algorithm: token_bucket, burst: 60",
		", on_store_failure: local, local_share: 10%, nodes: 1", ", on_store_failure: local, local_share: 20%, nodes: 2", ", coordination: eventual",
		", count: responses, statuses: [401]", ", count: responses, statuses: [403]", ", soft: 50%",
	}
	numbers := []string{"requests: 60, per: 1m", "requests: 1, per: 1s", "requests: 30, per: 1m", "requests: 100, per: 1h"}
	always := []string{"requests: 60, per: 1m, algorithm: token_bucket", "requests: 1, per: 1s, burst: 60, algorithm: token_bucket", "requests: 60, per: 1m"}
	tree := func() (text string) {
		for _, at := range []string{"k", "k=a", "k=a*", "l"} {
			if random.IntN(4) > 0 {
				text += limit(at, numbers[random.IntN(len(numbers))]+words[random.IntN(len(words))])
			}
		}
		return text + limit("always", always[random.IntN(len(always))])
	}
	of := func(table *rule.Table, name string) *rule.Rule {
		for _, r := range table.Rules() {
			if r.Name == name {
				return r
			}
		}
		return nil
	}
	seen := map[audit.Effect]int{}
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	for range rounds {
		texts := []string{tree(), tree()}
		old, now := parse(t, "old", "domain: d\ndescriptors:\n"+texts[0]), parse(t, "new", "domain: d\ndescriptors:\n"+texts[1])
		all := audit.Compare(old, now)
		for _, c := range all {
			other, same, anew := slices.Contains(c.Effects, audit.Other), slices.Contains(c.Effects, audit.Same), slices.Contains(c.Effects, audit.Anew)
			if other != (c.Why != "") || same && len(c.Effects) > 1 {
				t.Fatalf("%+v\n%s", c, strings.Join(texts, "\n"))
			}
			if c.Was != "" && c.Rule != "" {
				was, is := of(old, c.Was), of(now, c.Rule)
				if same && was.Stored.Rate() != is.Stored.Rate() || !anew && was.Given != is.Given {
					t.Fatalf("%+v\n%s", c, strings.Join(texts, "\n"))
				}
			}
			for _, e := range c.Effects {
				seen[e]++
			}
		}
		again := audit.Compare(old, old)
		if len(again) != 0 {
			t.Fatalf("%+v", again)
		}
		moved := audit.Compare(old, parse(t, "old", "domain: e\ndescriptors:\n"+texts[0]))
		if len(moved) != 2 || !slices.Contains(moved[0].Effects, audit.Anew) || !slices.Contains(moved[0].Effects, audit.Stricter) || !slices.Contains(moved[1].Effects, audit.Looser) {
			t.Fatalf("renamed domain: %+v\n%s", moved, texts[0])
		}
	}
	for _, e := range audit.Effects {
		if seen[e] == 0 {
			t.Errorf("no change was %s", e)
		}
	}
}
