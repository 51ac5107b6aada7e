package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/redis"
)

// metered returns a take with a history of two periods, and events at 80 and 100 %.
func metered(key string, requests uint32, cost uint32, op stint.Op) stint.Take {
	limit := stint.MustLimit(stint.Spec{Requests: requests, Per: time.Hour})
	return stint.Take{Key: stint.Key(key), Limit: limit, Cost: cost, Op: op, Handling: &stint.Handling{
		Terms: &stint.Terms{Domain: "api", Rule: "calls", Usage: 2, Notify: []uint8{80, 100}},
		Meter: &transaction.Meter{Subject: "user=" + key, Of: int64(requests)},
	}}
}

// collector reads the outbox, and forgets now and then what it has read, as if it had crashed.
type collector struct {
	*testing.T
	store *redis.Store
	rand  *rand.Rand
	ids   map[string]string // ID of each subject, threshold and period
	done  map[string]bool
}

func (c *collector) read() (found int) {
	events, err := c.store.Pending(context.Background(), 7)
	if err != nil {
		c.Error(err)
		return 0
	}
	var ids []string
	for _, e := range events {
		if c.done[e.ID] {
			c.Errorf("%+v is in the outbox again", e)
		}
		what := fmt.Sprint(e.Subject, " ", e.Threshold, " ", e.Start)
		if before, known := c.ids[what]; known && before != e.ID {
			c.Errorf("%s has the IDs %s and %s", what, before, e.ID)
		}
		c.ids[what] = e.ID
		if c.rand.IntN(4) > 0 {
			ids = append(ids, e.ID)
		}
	}
	if err := c.store.Done(context.Background(), ids); err != nil {
		c.Error(err)
	}
	for _, id := range ids {
		c.done[id] = true
	}
	return len(events)
}

// Eight nodes charge and give back under limits that change, and the outbox is read meanwhile: each
// subject, threshold and period has one event, and the histories are what was admitted.
func TestThresholdsOnNodes(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	namespace := fmt.Sprint("thresholds", stores.Add(1))
	var nodes [8]*redis.Store
	for i := range nodes {
		nodes[i] = openIn(t, server, namespace)
	}
	c := &collector{t, openIn(t, server, namespace), rand.New(rand.NewPCG(1, 1)), map[string]string{}, map[string]bool{}}
	const keys, periods = 6, 4
	reached := map[string]bool{}
	for period := range periods {
		at := stint.At(time.Now().Truncate(time.Hour)).Add(time.Duration(period) * time.Hour)
		var admitted [keys]atomic.Int64
		var group sync.WaitGroup
		for n, s := range nodes {
			group.Go(func() {
				r := rand.New(rand.NewPCG(uint64(period), uint64(n)))
				for range 60 {
					key, cost, op := r.IntN(keys), uint32(1+r.IntN(4)), stint.Ask
					if r.IntN(8) == 0 {
						op = stint.Force
					}
					call := stint.Call{At: at, Takes: []stint.Take{metered(fmt.Sprint(key), []uint32{40, 100, 250}[r.IntN(3)], cost, op)}}
					if err := s.Decide(context.Background(), &call); err != nil {
						t.Error(err)
						return
					}
					if !call.Results[0].Allowed {
						continue
					}
					admitted[key].Add(int64(cost))
					if op == stint.Ask && r.IntN(5) == 0 {
						back := transaction.Refund(call.Takes[0], uint64(cost), &call.Results[0])
						if err := s.Decide(context.Background(), &stint.Call{At: at, Takes: []stint.Take{back}}); err != nil {
							t.Error(err)
						}
						admitted[key].Add(-int64(cost))
					}
				}
			})
		}
		ended := make(chan struct{})
		go func() { group.Wait(); close(ended) }()
		for reading := true; reading; {
			c.read()
			select {
			case <-ended:
				reading = false
			default:
			}
		}
		for key := range keys {
			take := metered(fmt.Sprint(key), 100, 1, stint.Force)
			call := stint.Call{At: at, Takes: []stint.Take{take}}
			if err := nodes[0].Decide(context.Background(), &call); err != nil {
				t.Fatal(err)
			}
			u, err := nodes[1].Usage(context.Background(), &take)
			if err != nil || len(u.History) != min(period+1, 3) {
				t.Fatalf("%+v, %v", u, err)
			}
			last := u.History[len(u.History)-1]
			if want := uint64(admitted[key].Load() + 1); last.Used != want {
				t.Errorf("key %d, period %d: used %d, admitted %d", key, period, last.Used, want)
			}
			for _, percent := range []uint64{80, 100} { // of 100
				if last.Used >= percent {
					reached[fmt.Sprint("user=", key, " ", percent, " ", last.Start)] = true
				}
			}
		}
	}
	for range 1000 {
		if c.read() == 0 {
			break
		}
	}
	for what := range reached {
		if c.ids[what] == "" {
			t.Errorf("%s has no event", what)
		}
	}
	if len(reached) < keys {
		t.Errorf("only %d thresholds were reached", len(reached))
	}
	if left := server.Do("EXISTS", namespace+":events", namespace+":events:order"); strings.TrimSpace(left) != "0" {
		t.Errorf("the outbox is not empty: %s", left)
	}
}

// A history lives as long as its periods are kept, in its partition, and its index forgets it.
func TestUsageKeys(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	s, namespace := renewed(func() *redis.Store { return open(t, server) })(t)
	take := metered("a", 10, 9, stint.Ask)
	if err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{take}}); err != nil {
		t.Fatal(err)
	}
	ttl := 0
	if _, err := fmt.Sscan(server.Do("TTL", namespace+":usage:a"), &ttl); err != nil || ttl < 2*3600 || ttl > 3*3600+20 {
		t.Errorf("the history lives for %d s, %v", ttl, err)
	}
	for key, want := range map[string]string{":usages": "1", ":events:order": "1"} {
		if got := strings.TrimSpace(server.Do("ZCARD", namespace+key)); got != want {
			t.Errorf("%s has %s members, want %s", key, got, want)
		}
	}
	server.Do("SET", namespace+":usage:b", "no history")
	bad := metered("b", 10, 1, stint.Ask)
	err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{bad}})
	if err == nil || strings.Contains(err.Error(), "PARTLY") {
		t.Errorf("a history of another type: %v", err)
	}
	if left := strings.TrimSpace(server.Do("EXISTS", namespace+":fixed_window:b")); left != "0" {
		t.Errorf("the take was charged without its history")
	}
	server.Do("ZADD", namespace+":usages", "1", namespace+":usage:gone")
	late := metered("c", 10, 1, stint.Ask)
	if err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{late}}); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(server.Do("ZSCORE", namespace+":usages", namespace+":usage:gone")); got != "" && got != "(nil)" && got != "nil" {
		t.Errorf("the index has an expired history: %q", got)
	}
}

// The periods of a history are as earlier versions read them, which refuse a third word, until the plan of the key
// changes. Then each has the plan with which it was charged last.
func TestPlansOfPeriods(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "plans")
	begin := stint.At(time.Now().Truncate(time.Hour))
	charge := func(hour int, plan string) {
		t.Helper()
		take := metered("a", 100, 1, stint.Ask)
		take.Handling.Terms.Usage, take.Handling.Meter.Plan = 9, plan
		testkit.Must(t, s.Decide(t.Context(), &stint.Call{At: begin.Add(time.Duration(hour) * time.Hour), Takes: []stint.Take{take}}))
	}
	is := func(want ...string) {
		t.Helper()
		for hour, value := range want {
			from := begin.Add(time.Duration(hour) * time.Hour)
			if got := server.Do("HGET", "plans:usage:a", fmt.Sprintf("%d %d", from, from.Add(time.Hour))); got != value {
				t.Errorf("period %d is %q, want %q", hour, got, value)
			}
		}
	}
	for hour := range 3 {
		charge(hour, "")
	}
	is("1 ", "1 ")
	charge(3, "pro")
	is("1  ", "1  ", "1  ")
	for hour := range 3 {
		charge(4+hour, "pro")
	}
	is("1  ", "1  ", "1  ", "1 ", "1 ", "1 ")
	charge(6, "free")
	is("1  ", "1  ", "1  ", "1  pro", "1  pro", "1  pro")
	var plans []string
	testkit.Must(t, s.Usages(t.Context(), func(u transaction.Usage) bool {
		for _, p := range u.History {
			plans = append(plans, p.Plan)
		}
		return true
	}))
	if got := strings.Join(plans, ","); got != ",,,pro,pro,pro,free" {
		t.Errorf("the plans are %s", got)
	}
}
