package memcached_test

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/memcached"
	"stint/store/memcached/meta"
)

var (
	roundsFlag = flag.Int("memcached.rounds", 10, "how often one key is hammered; the long run is 100")
	triesFlag  = flag.Int("memcached.tries", 10_000, "how often each of 64 callers tries it")
)

const callers = 64

// hammer makes 64 callers try, as often as the flags say, and returns how many passed in all.
func hammer(t *testing.T, tries int, try func(caller int) (passed bool, err error)) (passed int64) {
	t.Helper()
	var sum atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range tries {
				ok, err := try(i)
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					sum.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return sum.Load()
}

// quickly reduces a number of tries for short runs and for the race detector.
func quickly(tries int) int {
	if testing.Short() || testkit.Race {
		return max(1, tries/100)
	}
	return tries
}

// fleet returns stores of several nodes with the same keys.
func fleet(t *testing.T, server *testkit.MemcachedServer, nodes int) (all []*memcached.Store) {
	t.Helper()
	namespace := fmt.Sprint("fleet", stores.Add(1))
	for range nodes {
		s, err := memcached.Open(server.URL(), memcached.Options{Namespace: namespace})
		testkit.Must(t, err)
		t.Cleanup(s.Close)
		all = append(all, s)
	}
	return all
}

// stat returns a number of the server.
func stat(t *testing.T, server *testkit.MemcachedServer, name string) int {
	t.Helper()
	c := meta.New(meta.Options{Network: "tcp", Address: server.Addr, Connections: 1})
	defer c.Close()
	replies, err := c.Do(t.Context(), 0, meta.Stats(""))
	testkit.Must(t, err)
	n, err := strconv.Atoi(replies[0].Numbers[name])
	testkit.Must(t, err)
	return n
}

// TestHammer: of all tries of 64 callers on two nodes exactly the limit passes, with one command for
// each. The same callers let too much pass by the scheme of envoyproxy/ratelimit.
func TestHammer(t *testing.T) {
	server := testkit.StartMemcached(t)
	const requests = 1000
	limit, tries := stint.MustLimit(stint.Spec{Requests: requests, Per: time.Hour}), quickly(*triesFlag)
	most := int64(0)
	for round := range *roundsFlag {
		nodes := fleet(t, server, 2)
		asked := stat(t, server, "incr_hits") + stat(t, server, "incr_misses")
		passed := hammer(t, tries, func(caller int) (bool, error) {
			call := stint.Call{Takes: []stint.Take{{Key: "hot", Limit: limit, Cost: 1}}}
			err := nodes[caller%2].Decide(context.Background(), &call)
			return err == nil && call.Results[0].Allowed, err
		})
		asked = stat(t, server, "incr_hits") + stat(t, server, "incr_misses") - asked
		if want := int64(min(requests, callers*tries)); passed != want || asked != callers*tries-1 { // the server does not count the first, which makes the counter
			t.Fatalf("round %d: %d of %d tries passed with %d commands, want %d", round, passed, callers*tries, asked, want)
		}
		if round < 3 { // enough of them lie before the limit is reached
			most = max(most, readThenAdd(t, server, round, requests, min(tries, 1000)))
		}
	}
	t.Logf("%d rounds of %d x %d tries under a limit of %d: %d passed each time; by reading, deciding and adding afterwards up to %d in 3 rounds",
		*roundsFlag, callers, tries, requests, requests, most)
}

// readThenAdd returns how many tries pass by the scheme of envoyproxy/ratelimit's backend for memcached:
// a caller reads the count, decides by it, and adds its cost afterwards, while its request goes on.
func readThenAdd(t *testing.T, server *testkit.MemcachedServer, round int, requests uint64, tries int) int64 {
	t.Helper()
	c := meta.New(meta.Options{Network: "tcp", Address: server.Addr, Connections: callers})
	defer c.Close()
	key, ctx := fmt.Sprint("scheme", round), context.Background()
	var added sync.WaitGroup
	passed := hammer(t, tries, func(caller int) (bool, error) {
		replies, err := c.Do(ctx, uint64(caller), meta.Get(key))
		if err != nil {
			return false, err
		}
		count, _ := replies[0].Number() // none yet: 0
		added.Go(func() { _, _ = c.Do(ctx, uint64(caller), meta.Increase(key, 1, 3600)) })
		return count+1 <= requests, nil
	})
	added.Wait()
	return passed
}

// TestContendedItem: 64 callers on four nodes, which all compare and swap one item, get at least 0.99 of
// a bucket, and never more than it has.
func TestContendedItem(t *testing.T) {
	server := testkit.StartMemcached(t)
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 2000, Per: 24 * time.Hour},
		{Algorithm: stint.LeakyBucket, Requests: 2000, Per: 24 * time.Hour, Burst: 1999},
		{Algorithm: stint.SlidingLog, Requests: 300, Per: 24 * time.Hour},
	} {
		limit := stint.MustLimit(spec)
		nodes, tries := fleet(t, server, 4), max(50, quickly(*triesFlag)/100)
		passed := hammer(t, tries, func(caller int) (bool, error) {
			call := stint.Call{Takes: []stint.Take{{Key: "hot", Limit: limit, Cost: 1}}}
			err := nodes[caller%4].Decide(context.Background(), &call)
			return err == nil && call.Results[0].Allowed, err
		})
		if want := limit.Capacity(); passed > want+1 || passed < want*99/100 { // one more may have flowed in meanwhile
			t.Errorf("%v: %d passed, want %d", spec.Algorithm, passed, want)
		}
	}
}

// TestSeveralLimits: calls of two limits on two nodes, one of which denies at the end, never let more
// pass than either allows, and what a denied call took is given back.
func TestSeveralLimits(t *testing.T) {
	server := testkit.StartMemcached(t)
	nodes := fleet(t, server, 2)
	small, large := stint.MustLimit(stint.Spec{Requests: 100, Per: 24 * time.Hour}), stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10_000, Per: 365 * 24 * time.Hour})
	takes := []stint.Take{{Key: "large", Limit: large, Cost: 3}, {Key: "small", Limit: small, Cost: 1}}
	passed := hammer(t, max(10, quickly(*triesFlag)/100), func(caller int) (bool, error) {
		call := stint.Call{Takes: takes}
		err := nodes[caller%2].Decide(context.Background(), &call)
		if err != nil {
			return false, err
		}
		d, _ := stint.Combine(call.Results)
		return d.Allowed, nil
	})
	look := stint.Call{Takes: []stint.Take{{Key: "large", Limit: large}, {Key: "small", Limit: small}}}
	testkit.Must(t, nodes[0].Decide(t.Context(), &look))
	if left := look.Results[0].Remaining; passed != 100 || left != 10_000-3*passed || look.Results[1].Remaining != 0 {
		t.Errorf("%d passed, %d and %d left", passed, left, look.Results[1].Remaining)
	}
}

// A key that memcached would not take is replaced with its hash, and all others are readable.
func TestKeyNames(t *testing.T) {
	server := testkit.StartMemcached(t)
	s, err := memcached.Open(server.URL(), memcached.Options{Namespace: strings.Repeat("n", 64)})
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	calendar := stint.MustLimit(stint.Spec{Requests: 5, Calendar: stint.Month})
	bucket := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Hour})
	log := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 5, Per: stint.MaxPer, Blocks: 60})
	for n := range 300 { // on both sides of the longest key
		for _, limit := range []*stint.Limit{calendar, bucket, log} {
			call := stint.Call{Takes: []stint.Take{{Key: stint.Key(strings.Repeat("k", n+1)), Limit: limit, Cost: 2}}}
			for _, want := range []int64{3, 1} {
				testkit.Must(t, s.Decide(t.Context(), &call))
				if d := call.Results[0]; d.Remaining != want {
					t.Fatalf("%v, key of %d bytes: %+v, want %d remaining", limit.Algorithm(), n+1, d, want)
				}
			}
		}
	}
	if got := server.Do("mg " + strings.Repeat("n", 64) + ":token_bucket:kkk k"); !strings.HasPrefix(got, "HD ") {
		t.Errorf("a short key does not stand as it is: %q", got)
	}
}

// TestExpiry: what a take writes lives until it counts no more and a few seconds longer, also beyond the
// 30 days up to which memcached takes a time to live as one.
func TestExpiry(t *testing.T) {
	server := testkit.StartMemcached(t)
	const day = 24 * time.Hour
	for _, per := range []time.Duration{time.Second, time.Minute, 29 * day, 30 * day, 31 * day, 366 * day} {
		for _, algorithm := range []stint.Algorithm{stint.FixedWindow, stint.TokenBucket, stint.SlidingLog, stint.SlidingWindow} {
			s := open(t, server)
			limit := stint.MustLimit(stint.Spec{Algorithm: algorithm, Requests: 5, Per: per})
			call := stint.Call{Takes: []stint.Take{{Key: "k", Limit: limit, Cost: 5}}}
			testkit.Must(t, s.Decide(t.Context(), &call))
			var left int64
			name := s.NameForTest(limit, "k", call.Results[0].At)
			if _, err := fmt.Sscanf(server.Do("mg "+name+" t"), "HD t%d", &left); err != nil {
				t.Fatalf("%v per %v: %v", algorithm, per, err)
			}
			need := int64(call.Results[0].ResetAfter / time.Second)
			if left < need+10 || left > need+20 {
				t.Errorf("%v per %v: %d seconds left, and it counts for %d", algorithm, per, left, need)
			}
		}
	}
}

// Costs and debts of any size never wrap a counter: debts stop growing, and a count that no store
// writes is an error.
func TestCounterNeverWraps(t *testing.T) {
	server := testkit.StartMemcached(t)
	s := open(t, server)
	for _, spec := range []stint.Spec{{Requests: 5, Per: time.Hour}, {Requests: 5, Per: time.Hour, Overdraw: true}, {Algorithm: stint.SlidingWindow, Requests: 5, Per: time.Hour, Overdraw: true}} {
		limit := stint.MustLimit(spec)
		var takes []stint.Take
		for range 100 {
			takes = append(takes, stint.Take{Key: "k", Limit: limit, Cost: stint.MaxCost})
		}
		for i, op := range []stint.Op{stint.Ask, stint.Force, stint.Ask, stint.AskAtMost, stint.Ask} {
			call := stint.Call{Takes: takes}
			if op != stint.Ask {
				call.Takes = []stint.Take{{Key: "k", Limit: limit, Cost: stint.MaxCost, Op: op}}
			}
			if op == stint.AskAtMost && spec.Overdraw {
				continue
			}
			testkit.Must(t, s.Decide(t.Context(), &call))
			if d := call.Results[0]; d.Allowed != (op == stint.Force) || op == stint.Force && d.Remaining != 0 {
				t.Fatalf("%+v, call %d: %+v", spec, i, d)
			}
		}
		name := s.NameForTest(limit, "k", stint.At(time.Now()))
		for _, value := range []string{"18446744073709551615", "4611686018427387905", "text"} {
			server.Do(fmt.Sprintf("set %s 0 100 %d\r\n%s", name, len(value), value))
			err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: "k", Limit: limit, Cost: 1}}})
			if !strings.Contains(fmt.Sprint(err), "is not a count") {
				t.Errorf("%+v, a count of %s: %v", spec, value, err)
			}
			if again := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: "k", Limit: limit, Cost: 1}}}); again == nil {
				t.Errorf("%+v, a count of %s: decided afterwards", spec, value)
			}
		}
		server.Do("md " + name)
	}
}
