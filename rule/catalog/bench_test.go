package catalog

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

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

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// requests are some that rules of million apply to.
func requests(rules []Rule, random *rand.Rand, n int) [][]rule.Entry {
	all := make([][]rule.Entry, n)
	for i := range all {
		p := random.IntN(len(rules) / 3)
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

func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	var rules []Rule
	for r, err := range million(n) {
		if err != nil {
			b.Fatal(err)
		}
		rules = append(rules, r)
	}
	c := New(Options{Domain: "api"})
	before := heap()
	began := time.Now()
	if err := c.Replace(func(yield func(Rule, error) bool) {
		for i := range rules {
			if !yield(rules[i], nil) {
				return
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
	load := time.Since(began)
	bytes := float64(heap()-before) / n
	random := rand.New(rand.NewPCG(3, 4))
	var m Matched
	asked, hits := 0, 0
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		// A request is in the cache when it is asked for; the rules of a million are not.
		batch := requests(rules, random, 128)
		began := time.Now()
		for i := range batch {
			m.Reset()
			c.Match(&m, "api", batch[i])
			hits += m.Len()
		}
		took = append(took, time.Since(began)/time.Duration(len(batch)))
		asked += len(batch)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "ns/match") // the median: others use this machine
	b.ReportMetric(float64(hits)/float64(asked), "hits")
	b.ReportMetric(load.Seconds(), "load-s")
	b.ReportMetric(bytes, "B/rule")
	began = time.Now()
	const changes = 200
	for i := range changes {
		r := rules[random.IntN(n)]
		if i%2 == 0 {
			r.Requests++
		} else {
			r.URL = fmt.Sprintf("/new/%d/{x}", i)
		}
		if err := c.Put(r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/changes, "us/change")
	runtime.KeepAlive(rules)
}
