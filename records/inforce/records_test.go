package inforce_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/testkit/samples"
	"stint/limiter"
	"stint/records"
	"stint/records/inforce"
	"stint/rule"
	"stint/rule/rulefile"
	"stint/store/memory"
)

var ctx = context.Background()

func table(t testing.TB) *rule.Table {
	t.Helper()
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(`
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 5, per: 1h}
    descriptors: [{key: path, rate_limit: {requests: 5, per: 1h, name: paths}}]
`)})
	testkit.Must(t, err)
	return table
}

func request(cost uint32, pairs ...string) *limiter.Request {
	d := limiter.Descriptor{Cost: cost}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, rule.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return &limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{d}}
}

// A limiter decides by the records of a file: an exact override before patterns, all entries of a
// descriptor, every rule of that name.
func TestRecords(t *testing.T) {
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	l := limiter.New(memory.New(memory.Options{}), table(t), limiter.Options{Records: samples.Records(
		t,
		records.Override{Target: "user=vip-*", Rule: "api/user", Requests: 100, Until: end},
		records.Override{Target: "user=vip-1", Rule: "api/user", Requests: 1000},
		records.Override{Target: "user=vip-1", Rule: "paths", Requests: 7},
		records.Override{Target: "path=/big", Rule: "paths", Requests: 9},
		records.Ban{Subject: "path=/secret", Until: end},
		records.Ban{Network: netip.MustParsePrefix("192.0.2.0/24"), Until: end},
		records.Subject{Name: "group=1", Kind: records.Organisation},
	)})
	for _, tt := range []struct {
		pairs  []string
		at     time.Time
		limit  int64
		reason limiter.Reason
	}{
		{[]string{"user", "vip-1"}, end.Add(-1), 1000, ""},
		{[]string{"user", "vip-2"}, end.Add(-time.Microsecond), 100, ""},
		{[]string{"user", "vip-2"}, end, 5, ""},
		{[]string{"user", "vip-1", "path", "/"}, end, 7, ""},
		{[]string{"user", "vip-1", "path", "/big"}, end, 9, ""},
		{[]string{"user", "other", "path", "/secret"}, end.Add(-time.Microsecond), 0, limiter.ReasonBanned},
		{[]string{"user", "other", "path", "/secret"}, end, 5, ""},
		{[]string{"remote_address", "192.0.2.1"}, end.Add(-time.Microsecond), 0, limiter.ReasonBanned},
		{[]string{"remote_address", "192.0.2.1"}, end, stint.NoLimit, ""},
		{[]string{"remote_address", "::ffff:192.0.2.1"}, end.Add(-time.Second), 0, limiter.ReasonBanned},
		{[]string{"group", "1"}, end, stint.NoLimit, ""},
	} {
		req := request(1, tt.pairs...)
		req.At = stint.At(tt.at)
		var v limiter.Verdict
		if err := l.Decide(ctx, req, &v); err != nil || v.Limit != tt.limit || v.Reason() != tt.reason {
			t.Errorf("%v at %v: limit %d, %q, %v, want %d, %q", tt.pairs, tt.at.Sub(end), v.Limit, v.Reason(), err, tt.limit, tt.reason)
		}
	}
}

// Decisions race with changes of records and of rules. Each sees the numbers before or after a
// change, and once a change has returned, the new ones alone.
func TestRace(t *testing.T) {
	file := samples.File(t)
	l := limiter.New(memory.New(memory.Options{}), table(t), limiter.Options{Records: inforce.NewRecords(file, inforce.RecordsOptions{OnError: func(err error) { t.Error(err) }})})
	var group sync.WaitGroup
	var stop atomic.Bool
	for i := range 4 {
		group.Go(func() {
			user, requests := strconv.Itoa(i%2), request(1, "user", strconv.Itoa(i%2), "path", "/")
			var v limiter.Verdict
			for !stop.Load() {
				if err := l.Decide(ctx, requests, &v); err != nil {
					t.Error(err)
					return
				}
				switch limit := v.Limit; {
				case v.Reason() == limiter.ReasonBanned && limit == 0:
				case limit != 5 && (limit < 100 || limit > 200) && limit != stint.NoLimit:
					t.Errorf("user %s: limit %d", user, limit)
					return
				}
			}
		})
	}
	group.Go(func() {
		for !stop.Load() {
			l.Swap(table(t))
		}
	})
	var v limiter.Verdict
	for i := range 100 {
		user := strconv.Itoa(i % 2)
		want := int64(100 + i)
		var put records.Record = records.Override{Target: "user=" + user, Rule: "paths", Requests: uint32(want)}
		switch {
		case i%5 == 4:
			put, want = records.Ban{Subject: "user=" + user}, 0
		case i%7 == 6:
			put, want = records.Override{Target: "user=" + user, Rule: "paths", Unlimited: true}, stint.NoLimit
		}
		samples.Put(t, file, put)
		if err := l.Decide(ctx, request(1, "user", user, "path", "/"), &v); err != nil || v.Limit != want {
			t.Errorf("change %d: limit %d, want %d, %v", i, v.Limit, want, err)
		}
		if want == 0 {
			_, err := file.Apply(ctx, records.Change{Edits: []records.Edit{{Delete: put.ID()}}}, time.Now())
			testkit.Must(t, err)
		}
	}
	stop.Store(true)
	group.Wait()
}

// caller is an HTTP request of which only the address counts.
type caller struct{ addr netip.Addr }

func (caller) Method() string               { return "GET" }
func (caller) Path() string                 { return "/" }
func (caller) Query(string) (string, bool)  { return "", false }
func (caller) Header(string) (string, bool) { return "", false }
func (c *caller) RemoteAddress() netip.Addr { return c.addr }

// BenchmarkMillionBans reports the cost of decisions with a million bans of addresses and networks,
// and a million bans of subjects: of decisions without records, of those that the records let pass,
// and of those that a ban denies. best-ns/op is the best of rounds of 2,000, without other load.
//
//	go test ./records/inforce -run '^$' -bench MillionBans
func BenchmarkMillionBans(b *testing.B) {
	const n = 1_000_000
	file := samples.File(b)
	for from := 0; from < n; from += 50_000 {
		all := make([]records.Record, 0, 100_000)
		for i := from; i < from+50_000; i++ {
			network := netip.PrefixFrom(testkit.ScatteredAddress(i), testkit.ScatteredAddress(i).BitLen())
			if i%10 == 0 {
				network = netip.PrefixFrom(testkit.ScatteredAddress(i), 24).Masked()
			}
			all = append(all, records.Ban{Network: network}, records.Ban{Subject: fmt.Sprint("user=bad", i)})
		}
		samples.Put(b, file, all...)
	}
	plain := limiter.New(memory.New(memory.Options{}), table(b), limiter.Options{})
	recorded := limiter.New(memory.New(memory.Options{}), table(b), limiter.Options{Records: inforce.NewRecords(file, inforce.RecordsOptions{})})
	r := rand.New(rand.NewPCG(1, 2))
	for _, bench := range []struct {
		name    string
		limiter *limiter.Limiter
		key     string
		user    func() string
		addr    func() netip.Addr
		want    limiter.Reason
	}{
		{"no records", plain, "user", func() string { return "good" }, func() netip.Addr { return testkit.ScatteredAddress(n + r.IntN(n)) }, ""},
		{"a key that no record has", recorded, "client", func() string { return "good" }, func() netip.Addr { return testkit.ScatteredAddress(n + r.IntN(n)) }, ""},
		{"nobody of interest", recorded, "user", func() string { return fmt.Sprint("good", r.IntN(1000)) }, func() netip.Addr { return testkit.ScatteredAddress(n + r.IntN(n)) }, ""},
		{"a banned address", recorded, "client", func() string { return "good" }, func() netip.Addr { return testkit.ScatteredAddress(r.IntN(n)) }, limiter.ReasonBanned},
		{"a banned subject", recorded, "user", func() string { return fmt.Sprint("bad", r.IntN(1000)) }, func() netip.Addr { return testkit.ScatteredAddress(n + r.IntN(n)) }, limiter.ReasonBanned},
		{"any of the banned subjects", recorded, "user", func() string { return fmt.Sprint("bad", r.IntN(n)) }, func() netip.Addr { return testkit.ScatteredAddress(n + r.IntN(n)) }, limiter.ReasonBanned},
	} {
		b.Run(bench.name, func(b *testing.B) {
			const round = 2000
			req := request(1, bench.key, "")
			from := new(caller)
			req.Attributes = from
			users, addrs := make([]string, 1<<14), make([]netip.Addr, 1<<14)
			for i := range users {
				users[i], addrs[i] = bench.user(), bench.addr()
			}
			var v limiter.Verdict
			var times []time.Duration
			i, denied, began := 0, 0, time.Now()
			b.ReportAllocs()
			for b.Loop() {
				req.Descriptors[0].Entries[0].Value, from.addr = users[i&(1<<14-1)], addrs[i&(1<<14-1)]
				if err := bench.limiter.Decide(ctx, req, &v); err != nil {
					b.Fatal(err)
				}
				if v.Reason() == limiter.ReasonBanned {
					denied++
				}
				if i++; i%round == 0 {
					times = append(times, time.Since(began))
					began = time.Now()
				}
			}
			b.ReportMetric(float64(denied)/float64(i), "banned/op")
			if len(times) > 0 {
				b.ReportMetric(float64(slices.Min(times).Nanoseconds())/round, "best-ns/op")
			}
		})
	}
}
