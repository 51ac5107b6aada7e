package records

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/records/apikey"
)

// fillFile writes n records in changes of 50,000.
func fillFile(b *testing.B, path string, n int, record func(i int) Record) {
	b.Helper()
	f := open(b, path)
	defer f.Close()
	for from := 0; from < n; from += 50_000 {
		var c Change
		for i := from; i < min(n, from+50_000); i++ {
			c.Edits = append(c.Edits, Edit{Put: record(i)})
		}
		_, err := f.Apply(b.Context(), c, start)
		testkit.Must(b, err)
	}
}

// BenchmarkMillionBans reports the cost of a million banned addresses and networks: ns/op of looking
// up one of them or another address (best-ns/op in the best 10,000 look-ups, without other load),
// open-s for opening the file, B/ban for the heap. A look-up takes about as long as 1.3 reads of one
// random place in as much memory (see the benchmark of package index): 200 ns where such a read takes
// 160 ns, on 2 cores of a busy EPYC.
//
//	go test ./records -run '^$' -bench MillionBans
func BenchmarkMillionBans(b *testing.B) {
	const n = 1_000_000
	path := filepath.Join(b.TempDir(), "records.db")
	fillFile(b, path, n, func(i int) Record {
		network := netip.PrefixFrom(testkit.ScatteredAddress(i), testkit.ScatteredAddress(i).BitLen())
		if i%10 == 0 {
			network = netip.PrefixFrom(testkit.ScatteredAddress(i), 24).Masked()
		}
		return Ban{Network: network, Until: start.Add(time.Duration(1+i%1000) * time.Hour)}
	})
	before, began := testkit.Heap(), time.Now()
	f := open(b, path)
	took, heap := time.Since(began), testkit.Heap()-before
	r := rand.New(rand.NewPCG(1, 2))
	addrs := map[string][]netip.Addr{}
	for range 1 << 16 {
		addrs["banned"] = append(addrs["banned"], testkit.ScatteredAddress(r.IntN(n)))
		addrs["other"] = append(addrs["other"], testkit.ScatteredAddress(n+r.IntN(n)))
	}
	for _, which := range []string{"banned", "other"} {
		b.Run(which, func(b *testing.B) {
			const round = 10_000
			i, hits := 0, 0
			var times []time.Duration
			began := time.Now()
			for b.Loop() {
				if _, banned := f.BannedAddress(addrs[which][i&(1<<16-1)], start); banned {
					hits++
				}
				if i++; i%round == 0 {
					times = append(times, time.Since(began))
					began = time.Now()
				}
			}
			b.ReportMetric(float64(hits)/float64(i), "banned/op")
			if len(times) > 0 {
				b.ReportMetric(float64(slices.Min(times).Nanoseconds())/round, "best-ns/op")
			}
			b.ReportMetric(took.Seconds(), "open-s")
			b.ReportMetric(float64(heap)/n, "B/ban")
		})
	}
}

// BenchmarkMillionSubjects reports the cost of looking up one of a million subjects with a plan and
// an override: from the cache, and from the file with the slowest of 100 (p99-us). heap-MB is the
// heap beside the file after that, with the measured times. On 2 cores of a busy EPYC they are 57 ns,
// 24 us and 9 MB.
//
//	go test ./records -run '^$' -bench MillionSubjects
func BenchmarkMillionSubjects(b *testing.B) {
	const n = 1_000_000
	path := filepath.Join(b.TempDir(), "records.db")
	fillFile(b, path, n, func(i int) Record {
		if i%2 == 1 {
			return Override{Target: fmt.Sprint("user=", i-1), Rule: "api/user", Requests: uint32(i)}
		}
		return Subject{Name: fmt.Sprint("user=", i), Kind: User, Plan: "pro", Groups: []string{"eu"}}
	})
	before := testkit.Heap()
	f := open(b, path)
	put(b, f, Override{Target: "user=test-*", Rule: "api/user", Requests: 1})
	r := rand.New(rand.NewPCG(1, 2))
	users := make([]string, 1<<16)
	for i := range users {
		users[i] = strconv.Itoa(r.IntN(n) &^ 1)
	}
	b.Run("file", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			began := time.Now()
			known, err := f.Lookup("user", strconv.Itoa(r.IntN(n)&^1))
			times = append(times, time.Since(began))
			if err != nil || known.Subject == nil {
				b.Fatal(known, err)
			}
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-us")
		b.ReportMetric(float64(testkit.Heap()-before)/1e6, "heap-MB")
	})
	b.Run("cache", func(b *testing.B) {
		i := 0
		for b.Loop() {
			known, err := f.Lookup("user", users[i%5000])
			if err != nil || known.Override("api/user", start) == nil {
				b.Fatal(known, err)
			}
			i++
		}
	})
}

// BenchmarkMillionKeys reports the cost of verifying one of a million API keys, from its text to its
// record: of the slowest of 100, mostly read from the file (p99-us), and of keys that somebody made up,
// which fail on their check part without a look-up. On 2 cores of a busy EPYC they are 17 us and 81 ns.
//
//	go test ./records -run '^$' -bench MillionKeys
func BenchmarkMillionKeys(b *testing.B) {
	const n = 1_000_000
	path := filepath.Join(b.TempDir(), "records.db")
	var known []string // the text of some keys
	fillFile(b, path, n, func(i int) Record {
		if i%10 != 0 {
			return APIKey{Hash: sumOf(strconv.Itoa(i)), Last: "x7Qa", Subject: fmt.Sprint("user=", i)}
		}
		secret, err := apikey.New("sk")
		testkit.Must(b, err)
		known = append(known, secret.Reveal())
		return APIKey{Hash: secret.Key().Hash(), Last: secret.Key().LastFour(), Subject: fmt.Sprint("user=", i)}
	})
	f := open(b, path)
	r := rand.New(rand.NewPCG(1, 2))
	b.Run("valid", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			text := known[r.IntN(len(known))]
			began := time.Now()
			k, err := apikey.Parse(text)
			if err != nil {
				b.Fatal(err)
			}
			record, err := f.Key(k.Hash(), start)
			times = append(times, time.Since(began))
			if err != nil || record == nil {
				b.Fatal(record, err)
			}
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds())/1000, "p99-us")
	})
	b.Run("made up", func(b *testing.B) {
		for b.Loop() {
			text := []byte(known[0])
			text[len(text)/2]++
			if _, err := apikey.Parse(string(text)); err == nil {
				b.Fatal("accepted")
			}
		}
	})
}

// BenchmarkAudit reports the cost of the audit trail of a million edits: edit-us for each edit in a change
// of 50,000, verify-s and verify-heap-MB for verifying all entries, erase-ms for erasing one subject of them,
// B/edit for the file. On 2 cores of a busy EPYC they are 13 us (0.65 s for such a change; two fifths of
// it for the trail), 7 s, 0 MB and 0.5 s, and 750 bytes.
//
//	go test ./records -run '^$' -bench Audit -benchtime 1x
func BenchmarkAudit(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "records.db")
		began := time.Now()
		fillFile(b, path, n, func(i int) Record { return Subject{Name: fmt.Sprint("user=", i), Kind: User, Plan: "pro"} })
		b.ReportMetric(float64(time.Since(began).Microseconds())/n, "edit-us")
		info, err := os.Stat(path)
		testkit.Must(b, err)
		b.ReportMetric(float64(info.Size())/n, "B/edit")
		f := open(b, path)
		began = time.Now()
		before := testkit.Heap()
		r, err := f.Verify(b.Context())
		testkit.Must(b, err)
		if r.Break != nil || r.Head.Number != n {
			b.Fatal(r)
		}
		b.ReportMetric(time.Since(began).Seconds(), "verify-s")
		b.ReportMetric(float64(testkit.Heap()-before)/1e6, "verify-heap-MB")
		began = time.Now()
		_, err = f.Erase(b.Context(), "user=500000", Actor{}, start)
		testkit.Must(b, err)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "erase-ms")
		testkit.Must(b, f.Close())
	}
}
