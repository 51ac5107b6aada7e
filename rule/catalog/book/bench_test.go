package book_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/rule"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
)

// median returns the median, which is robust against other load on the machine.
func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// busyTime returns the CPU time that this process has used.
func busyTime(b *testing.B) time.Duration {
	busy, err := testkit.BusyTime()
	if err != nil {
		b.Fatal(err)
	}
	return busy
}

// BenchmarkMillion reports the cost of a million rules: load-s, the time from the file on disk to
// the rules in force (load-cpu-s is the CPU time of that, which does not depend on other load);
// B/rule, the heap per rule; ns/match and allocs/match, for a request with matching rules; and
// change-ms, the time until a changed rule is on disk and in force.
//
//	go test ./rule/catalog/book -run '^$' -bench Million -benchtime 1x
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	path := filepath.Join(b.TempDir(), "rules.db")
	writeRules(b, path, n)
	for b.Loop() {
		before, busy := testkit.Heap(), busyTime(b)
		began := time.Now()
		whole, err := book.Open(path, catalog.Options{Domain: "api"})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "load-s")
		b.ReportMetric((busyTime(b) - busy).Seconds(), "load-cpu-s")
		b.ReportMetric(float64(testkit.Heap()-before)/n, "B/rule")
		measureMatch(b, whole)
		measureChange(b, whole)
		if err := whole.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// writeRules writes a file of n rules.
func writeRules(b *testing.B, path string, n int) {
	store, err := book.OpenDisk(path)
	if err != nil {
		b.Fatal(err)
	}
	batch, err := book.Gather(samples.Rules(n, 1))
	if err != nil {
		b.Fatal(err)
	}
	if err := store.Replace(batch); err != nil {
		b.Fatal(err)
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

// measureMatch measures matches of random rules of the whole catalog, which are in no cache.
func measureMatch(b *testing.B, whole *book.Book) {
	const batch = 500
	rules := make([]catalog.Rule, 0, 200*batch)
	for i := range cap(rules) {
		r, ok := whole.Catalog().Get(fmt.Sprint("r", i*7919%whole.Catalog().Len()))
		if !ok {
			b.Fatal("a rule is missing")
		}
		rules = append(rules, r)
	}
	var m catalog.Matched
	var times []time.Duration
	for some := range slices.Chunk(rules, batch) {
		asked := make([][]rule.Entry, len(some))
		for i := range some {
			asked[i] = samples.Asking(&some[i])
		}
		began := time.Now()
		for _, entries := range asked {
			m.Reset()
			whole.Catalog().Match(&m, "api", entries)
			if m.Len() == 0 {
				b.Fatalf("nothing applies to %v", entries)
			}
		}
		times = append(times, time.Since(began)/batch)
	}
	b.ReportMetric(float64(median(times).Nanoseconds()), "ns/match")
	one := samples.Asking(&rules[0])
	b.ReportMetric(testing.AllocsPerRun(1000, func() {
		m.Reset()
		whole.Catalog().Match(&m, "api", one)
	}), "allocs/match")
}

// measureChange changes rules and checks that each change is in force.
func measureChange(b *testing.B, whole *book.Book) {
	var times []time.Duration
	var m catalog.Matched
	for i := range 50 {
		r, _ := whole.Catalog().Get(fmt.Sprint("r", i*19937))
		r.Requests++
		began := time.Now()
		if _, err := whole.Put(b.Context(), r, nil); err != nil {
			b.Fatal(err)
		}
		m.Reset()
		whole.Catalog().Match(&m, "api", samples.Asking(&r))
		found := false
		for k := range m.Len() {
			one := m.Rule(k)
			found = found || one.Name == r.ID && uint64(one.Limit.Spec().Requests) == r.Requests
		}
		if !found {
			b.Fatalf("%+v is not in force", r)
		}
		times = append(times, time.Since(began))
	}
	b.ReportMetric(float64(median(times).Microseconds())/1e3, "change-ms")
	b.ReportMetric(float64(slices.Max(times).Microseconds())/1e3, "worst-change-ms")
}
