package catalog

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stint/internal/xtest"
	"stint/rule"
)

// million are rules as a large shop might have them: thousands of services with their
// resources, and for each of them rules for all, for everybody, for plans and for
// single users.
func million(n int) iter.Seq2[Rule, error] {
	return func(yield func(Rule, error) bool) {
		random := rand.New(rand.NewPCG(1, 2))
		methods := []string{"", "GET ", "POST ", ""}
		times := []string{"sec", "minute", "hour", "day"}
		for i := range n {
			pattern := i / 3
			url := fmt.Sprintf("%s/v%d/svc%d/res%d/{id}", methods[pattern%4], pattern%2+1, pattern%2000, pattern/2000)
			if pattern%5 == 0 {
				url += "/items/{item}"
			}
			uid := ""
			switch i % 3 {
			case 0:
				uid = "all"
			case 1:
				uid = []string{"*", "plan:gold"}[i/3%2]
			case 2:
				uid = fmt.Sprintf("user%d", random.IntN(100_000))
			}
			r := Rule{ID: fmt.Sprint(i), UID: uid, URL: url, Time: times[random.IntN(4)], Requests: uint64(1 + random.IntN(1000))}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// requests are some that rules of million apply to, for the patterns that pick says.
func requests(rules []Rule, pick func() int, n int) [][]rule.Entry {
	all := make([][]rule.Entry, n)
	for i := range all {
		p := pick()
		path := fmt.Sprintf("/v%d/svc%d/res%d/7", p%2+1, p%2000, p/2000)
		if p%5 == 0 {
			path += "/items/9"
		}
		all[i] = []rule.Entry{
			{Key: "method", Value: []string{"GET", "GET", "POST", "PUT"}[p%4]},
			{Key: "path", Value: path},
			{Key: "user", Value: rules[p*3+2].UID},
			{Key: "plan", Value: "gold"},
		}
	}
	return all
}

// matching measures a match, in nanoseconds: the median of batches, as others may use
// the machine. A request is in the cache when it is asked for; the rules are not.
func matching(b *testing.B, c *Catalog, rules []Rule, pick func() int) float64 {
	var m Matched
	var took []time.Duration
	for range 1000 {
		batch := requests(rules, pick, 128)
		began := time.Now()
		for i := range batch {
			m.Reset()
			if c.Match(&m, "api", batch[i]); m.Len() != 2 {
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
	rules := make([]Rule, 0, n)
	for r, err := range million(n) {
		if err != nil {
			b.Fatal(err)
		}
		rules = append(rules, r)
	}
	c := New(Options{Domain: "api"})
	before, began := xtest.Heap(), time.Now()
	if err := c.Replace(seq(rules)); err != nil {
		b.Fatal(err)
	}
	load := time.Since(began)
	bytes := float64(xtest.Heap()-before) / n
	random := rand.New(rand.NewPCG(3, 4))
	zipf := rand.NewZipf(random, 1.1, 1, n/3-1)
	one, m := requests(rules, func() int { return 7 }, 1)[0], new(Matched)
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

// changing measures a change that is in force, the longest of 200: of numbers, or of a
// url.
func changing(b *testing.B, c *Catalog, rules []Rule, random *rand.Rand) (longest time.Duration) {
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
