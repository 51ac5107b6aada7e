package catalogtest

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/rule"
	"stint/rule/catalog"
)

// requests are some that rules apply to, for the patterns that pick says: three rules with
// one url stand together, the last of them for a user.
func requests(rules []catalog.Rule, pick func() int, n int) [][]rule.Entry {
	all := make([][]rule.Entry, n)
	for i := range all {
		all[i] = Asking(&rules[3*pick()+2])
	}
	return all
}

// matching measures a match, in nanoseconds: the median of batches, as others may use
// the machine. A request is in the cache when it is asked for; the rules are not.
func matching(b *testing.B, c *catalog.Catalog, rules []catalog.Rule, pick func() int) float64 {
	var m catalog.Matched
	var took []time.Duration
	for range 1000 {
		batch := requests(rules, pick, 128)
		began := time.Now()
		for i := range batch {
			m.Reset()
			if c.Match(&m, "api", batch[i]); m.Len() < 2 { // for all, and for the user
				b.Fatalf("%d rules apply to %v", m.Len(), batch[i])
			}
		}
		took = append(took, time.Since(began)/time.Duration(len(batch)))
	}
	slices.Sort(took)
	return float64(took[len(took)/2].Nanoseconds())
}

// BenchmarkMillion prints what a million rules cost. An iteration is a match of one and
// the same request; ns/any is that of a pattern out of all, and ns/liked that where some
// patterns are asked for more than others, as in most traffic (Zipf, exponent 1.1).
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	rules := make([]catalog.Rule, 0, n)
	for r, err := range Rules(n, 1) {
		if err != nil {
			b.Fatal(err)
		}
		rules = append(rules, r)
	}
	c := catalog.New(catalog.Options{Domain: "api"})
	before, began := testkit.Heap(), time.Now()
	if err := c.Replace(listed(rules)); err != nil {
		b.Fatal(err)
	}
	load := time.Since(began)
	bytes := float64(testkit.Heap()-before) / n
	random := rand.New(rand.NewPCG(3, 4))
	zipf := rand.NewZipf(random, 1.1, 1, n/3-1)
	one, m := requests(rules, func() int { return 7 }, 1)[0], new(catalog.Matched)
	b.ReportAllocs()
	for b.Loop() {
		m.Reset()
		c.Match(m, "api", one)
	}
	b.ReportMetric(matching(b, c, rules, func() int { return random.IntN(n / 3) }), "ns/any")
	b.ReportMetric(matching(b, c, rules, func() int { return int(zipf.Uint64()) * 12_345 % (n / 3) }), "ns/liked")
	b.ReportMetric(load.Seconds(), "load-s")
	b.ReportMetric(bytes, "B/rule")
	b.ReportMetric(float64(changing(b, c, rules, random).Microseconds()), "us/change")
}

// listed yields rules.
func listed(rules []catalog.Rule) iter.Seq2[catalog.Rule, error] {
	return func(yield func(catalog.Rule, error) bool) {
		for _, r := range rules {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// changing measures a change that is in force, the longest of 200: of numbers, or of a
// url.
func changing(b *testing.B, c *catalog.Catalog, rules []catalog.Rule, random *rand.Rand) (longest time.Duration) {
	for i := range 200 {
		r := rules[random.IntN(len(rules))]
		if i%2 == 0 {
			r.Requests++
		} else {
			r.URL = fmt.Sprintf("/new/%d/{x}", i)
		}
		began := time.Now()
		if err := c.Put(r); err != nil {
			b.Fatal(err)
		}
		longest = max(longest, time.Since(began))
	}
	return longest
}
