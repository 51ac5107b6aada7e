package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/redis/script"
)

// The script with all files is one that the server can run: it has at most 200 local variables.
func TestAllFilesAreOneScript(t *testing.T) {
	if answer := testkit.StartRedis(t).Do("SCRIPT", "LOAD", script.All.Text()); len(answer) != 40 {
		t.Error(answer)
	}
}

// A book lives for a year after its last grant has ended, and nodes that know no grants leave it as it is. A value
// that is no book is reported.
func TestBooks(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "books")
	until := stint.At(time.Now().Add(100 * time.Hour))
	take := func(cost uint32) stint.Take {
		one := metered("a", 10, cost, stint.Ask)
		one.Handling.Meter.Grants = []limits.Grant{{ID: "g", Units: 5, Priority: limits.GrantPriority, Until: until}}
		return one
	}
	first := decide(t, s, take(12))[0]
	if first.Remaining != 3 || first.Limit != 15 {
		t.Fatalf("%+v", first)
	}
	left, _ := strconv.Atoi(server.Do("PTTL", "books:grants:a"))
	if ttl, want := time.Duration(left)*time.Millisecond, 100*time.Hour+year; ttl < want || ttl > want+time.Minute {
		t.Errorf("the book lives for %v, want %v", ttl, want)
	}
	book := server.Do("GET", "books:grants:a")
	for _, plain := range []stint.Take{metered("a", 10, 1, stint.Ask), metered("a", 10, 2, stint.Refund), metered("a", 10, 0, stint.Ask)} {
		decide(t, s, plain)
	}
	if got := server.Do("GET", "books:grants:a"); got != book {
		t.Errorf("takes without grants wrote %q, it was %q", got, book)
	}
	if d := decide(t, s, take(0))[0]; d.Remaining != 5 { // 2 of the limit, 3 of the grant
		t.Errorf("%+v", d)
	}
	back := take(12)
	back.Op, back.Undo = stint.Refund, &first
	if d := decide(t, s, back)[0]; d.Remaining != 15 || server.Do("EXISTS", "books:grants:a") != "0" {
		t.Errorf("%+v, book %q", d, server.Do("GET", "books:grants:a"))
	}
	for _, value := range []string{"no book", "1g 1 2 3 4 5", "1g 1 2 3 4 5 6 7", "1g 1 2 3 4 5 6 7 8 9", "2g 1 2 3 4 5 6", "2g 1 2 3 4 5 6 7 8 9 10 11", "3g 1 2 3 4 5 6"} {
		server.Do("SET", "books:grants:a", value)
		call := stint.Call{Takes: []stint.Take{take(1)}}
		if err := s.Decide(context.Background(), &call); err == nil {
			t.Errorf("%q is a book: %+v", value, call.Results)
		}
	}
}

// Many callers take of keys in several partitions at once, and are denied between test and charge: what they
// took of grants goes back to these.
func TestGrantsOnCluster(t *testing.T) {
	s := openCluster(t, testkit.StartRedisCluster(t, 3))
	take := func(key string, cost uint32) stint.Take {
		one := metered(key, 5, cost, stint.Ask)
		one.Limit = stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 5, Per: 366 * 24 * time.Hour})
		one.Handling.Meter.Grants = []limits.Grant{{ID: "before", Units: 3, Priority: 1, Until: stint.MaxInstant}, {ID: "after", Units: 4, Priority: limits.GrantPriority, Until: stint.MaxInstant}}
		return one
	}
	keys := []string{"a", "b", "c", "d"}
	var passed, denied atomic.Int64
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 60 {
				n := r.IntN(len(keys))
				call := stint.Call{Takes: []stint.Take{take(keys[n], uint32(1+r.IntN(9))), take(keys[(n+1)%len(keys)], uint32(1+r.IntN(9)))}}
				if err := s.Decide(context.Background(), &call); err != nil {
					t.Error(err)
					return
				}
				if d, _ := stint.Combine(call.Results); !d.Allowed {
					denied.Add(1)
					continue
				}
				passed.Add(1)
				for i := range call.Takes {
					back := stint.Call{Takes: []stint.Take{transaction.Refund(call.Takes[i], uint64(call.Takes[i].Cost), &call.Results[i])}}
					if err := s.Decide(context.Background(), &back); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d calls passed, %d were denied", passed.Load(), denied.Load())
	for _, key := range keys {
		if d := decide(t, s, take(key, 12))[0]; !d.Allowed {
			t.Errorf("%s: %+v", key, d)
		}
		back := take(key, 9) // 4 of the last grant, and all of the limit
		back.Op = stint.Refund
		if d := decide(t, s, back)[0]; d.Remaining != 9 {
			t.Errorf("%s: %+v", key, d)
		}
	}
}

// The key of a book is the same for who writes it and who reads it, also of a long key.
func TestBookKeys(t *testing.T) {
	for _, key := range []string{"a", strings.Repeat("k", 129)} {
		one := metered(key, 10, 1, stint.Ask)
		if got, want := script.NewMeter("n", "n:{tag}:", &one).Book(), script.BookKey("n:{tag}:", one.Key); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The use of grants outlives them and a clock that ran ahead, for a year from the last charge. Of ended
// grants the book has the last 32.
func TestBooksKeepUse(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "books")
	until := func(id string, at stint.Instant) stint.Take {
		one := metered("a", 10, 1, stint.Ask)
		one.Handling.Meter.Grants = []limits.Grant{{ID: id, Units: 1, Priority: 1, Until: at}}
		return one
	}
	ends := noon.Add(100 * time.Hour)
	decideAt(t, s, noon, until("g", ends))
	decideAt(t, s, ends.Add(5*year), until("g", ends))
	left, _ := strconv.Atoi(server.Do("PTTL", "books:grants:a"))
	if ttl := time.Duration(left) * time.Millisecond; ttl < year-time.Minute {
		t.Errorf("the book lives for %v after a charge by a clock that ran ahead", ttl)
	}
	if d := decideAt(t, s, ends.Add(time.Hour), until("g", ends.Add(200*time.Hour)))[0]; !d.Allowed || d.Limit != 11 || d.Remaining >= 10 {
		t.Errorf("the grant is whole again: %+v", d)
	}
	for i := range 40 {
		decideAt(t, s, noon, until("b"+strconv.Itoa(i), noon.Add(time.Duration(40-i)*time.Hour)))
		if i%5 == 0 { // also the last units of the limit itself
			decideAt(t, s, noon, until("lasts", stint.MaxInstant))
		}
	}
	server.Do("DEL", "books:fixed_window:a")
	decideAt(t, s, ends.Add(300*time.Hour), metered("plain", 10, 1, stint.Ask), until("lasts", stint.MaxInstant))
	var book transaction.Usage
	if err := script.AddBook(&book, server.Do("GET", "books:grants:a")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range book.Book.Grants {
		got = append(got, u.ID)
	}
	want := []string{"g", "lasts"}
	for i := range 31 {
		want = append(want, "b"+strconv.Itoa(i))
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("the book has %v, want %v", got, want)
	}
}

// A key with a rollover has its history as long as its carry may leave something.
func TestRolloverKeepsHistory(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "books")
	for key, want := range map[string]time.Duration{"a": 14 * time.Hour, "b": 3 * time.Hour} {
		one := metered(key, 10, 1, stint.Ask)
		one.Limit = stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour})
		if key == "a" {
			one.Handling.Meter.Rollover = 4
		}
		decide(t, s, one)
		left, _ := strconv.Atoi(server.Do("PTTL", "books:usage:"+key))
		if ttl := time.Duration(left) * time.Millisecond; ttl > want+time.Minute || ttl < want-time.Hour {
			t.Errorf("the history of %s lives for %v, want at most %v", key, ttl, want)
		}
	}
}

// After a clock that ran ahead is corrected a key has the rollover that it had before, less what was used
// since.
func TestRolloverAfterClockAhead(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "books")
	take := func(key string, at stint.Instant, cost uint32) string {
		one := metered(key, 10, cost, stint.Ask)
		one.Limit, one.Handling.Meter.Rollover = stint.MustLimit(stint.Spec{Requests: 10, Calendar: stint.Month}), map[string]int64{"a": 4, "b": 25}[key]
		d := decideAt(t, s, at, one)[0]
		return fmt.Sprint(d.Allowed, d.Remaining, d.Limit)
	}
	month := func(m time.Month) stint.Instant { return stint.At(time.Date(2026, m, 1, 12, 0, 0, 0, time.UTC)) }
	type step struct {
		at   stint.Instant
		cost uint32
		want string
	}
	for i, step := range []step{
		{month(1), 3, "true 7 10"},
		{month(2), 2, "true 12 14"},
		{month(12), 1, "true 13 14"},
		{month(2), 0, "true 11 14"},
		{month(2), 12, "false 11 14"},
		{month(2), 2, "true 9 14"},
		{month(3), 1, "true 13 14"},
		{month(9), 0, "true 14 14"},
		{month(12), 1, "true 13 14"},
		{month(14), 1, "true 13 14"},
		{month(3), 0, "true 10 10"},
	} {
		if got := take("a", step.at, step.cost); got != step.want {
			t.Errorf("step %d: %s, want %s", i+1, got, step.want)
		}
	}
	// Units of the limit that the clock ahead replaced are not left: of 40 in 4 months 39 were used.
	for i, step := range []step{{month(1), 8, "true 2 10"}, {month(6), 30, "true 5 35"}, {month(1), 1, "true 4 10"}, {month(5), 0, "true 11 11"}} {
		if got := take("b", step.at, step.cost); got != step.want {
			t.Errorf("another key, step %d: %s, want %s", i+1, got, step.want)
		}
	}
}
