package catalog_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/rule"
	"stint/rule/catalog"
)

// requests returns requests that match rules at the positions that pick returns. Three successive
// rules have the same url, and the last of them is for a user.
func requests(rules []catalog.Rule, pick func() int, n int) [][]rule.Entry {
	all := make([][]rule.Entry, n)
	for i := range all {
		all[i] = samples.Asking(&rules[3*pick()+2])
	}
	return all
}

// matching returns the time of one match in nanoseconds: the median of several batches, because
// others may use the machine. The requests are in the cache of the processor, the rules are not.
func matching(b *testing.B, c *catalog.Catalog, rules []catalog.Rule, pick func() int) float64 {
	var m catalog.Matched
	var took []time.Duration
	for range 1000 {
		batch := requests(rules, pick, 128)
		began := time.Now()
		for i := range batch {
			m.Reset()
			if c.Match(&m, "api", batch[i]); m.Len() < 2 { // one for all users, one for the user
				b.Fatalf("%d rules apply to %v", m.Len(), batch[i])
			}
		}
		took = append(took, time.Since(began)/time.Duration(len(batch)))
	}
	slices.Sort(took)
	return float64(took[len(took)/2].Nanoseconds())
}

// BenchmarkMillion reports the cost of a million rules. An iteration matches the same request
// again; ns/any is the time for patterns selected uniformly, and ns/liked for patterns with a Zipf
// distribution (exponent 1.1), as in most traffic.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	rules := make([]catalog.Rule, 0, n)
	for r, err := range samples.Rules(n, 1) {
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

// changing returns the longest time of 200 changes, of numbers or of a url, until the change is in
// force.
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
