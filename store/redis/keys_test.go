package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// forms are limits of each kind of value in Redis.
var forms = []*stint.Limit{
	stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Minute}),
	stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Minute, Step: true}),
	stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: time.Minute, Reserve: true}),
	stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 100, Per: time.Minute, Burst: 99}),
	stint.MustLimit(stint.Spec{Requests: 100, Per: time.Minute}),
	stint.MustLimit(stint.Spec{Requests: 100, Per: time.Minute, FromFirst: true}),
	stint.MustLimit(stint.Spec{Requests: 100, Calendar: stint.Day}),
	stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 100, Per: time.Minute}),
	stint.MustLimit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 100, Per: time.Minute, Blocks: 10}),
	stint.MustLimit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 100, Per: time.Minute, Blocks: 10, StartUsedUp: true}),
}

func openIn(t testing.TB, server *testkit.RedisServer, namespace string) *redis.Store {
	t.Helper()
	s, err := redis.Open(server.URL(), redis.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// noon is the time of calls whose remaining units a test checks: by the server's clock a window may
// end between two of them, and a bucket refills.
var noon = stint.At(time.Date(2026, 3, 1, 12, 0, 7, 0, time.UTC))

func decide(t testing.TB, s stint.Store, takes ...stint.Take) []stint.Decision {
	t.Helper()
	return decideAt(t, s, 0, takes...)
}

// decideAt is decide at a time, 0 for that of the server.
func decideAt(t testing.TB, s stint.Store, at stint.Instant, takes ...stint.Take) []stint.Decision {
	t.Helper()
	call := stint.Call{At: at, Takes: takes}
	if err := s.Decide(t.Context(), &call); err != nil {
		t.Fatal(err)
	}
	return call.Results
}

func take(t testing.TB, s stint.Store, key stint.Key, limit *stint.Limit, cost uint32) stint.Decision {
	t.Helper()
	return takeAt(t, s, 0, key, limit, cost)
}

func takeAt(t testing.TB, s stint.Store, at stint.Instant, key stint.Key, limit *stint.Limit, cost uint32) stint.Decision {
	t.Helper()
	return decideAt(t, s, at, stint.Take{Key: key, Limit: limit, Cost: cost})[0]
}

// Whatever a call does, each key lies in the namespace and has a time to live of at most two
// windows and the fifteen seconds by which a clock may be set back.
func TestKeysLieInTheNamespaceAndExpire(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "mine")
	for i, limit := range forms {
		for _, key := range []stint.Key{"user=42", "mine:user", "other:token_bucket:a", stint.Key(strings.Repeat("long", 100)), "{a}", "\x00"} {
			d := take(t, s, key, limit, 3)
			take(t, s, key, limit, 101)
			decide(t, s, stint.Take{Key: key, Limit: limit, Cost: 200, Op: stint.Force})
			decide(t, s, stint.Take{Key: key, Limit: limit, Cost: 200, Op: stint.Refund})
			decide(t, s, stint.Take{Key: key, Limit: limit, Cost: 3, Op: stint.Refund, Undo: &d})
			take(t, s, key, limit, 0)
			take(t, s, key, limit, 2)
			take(t, s, key, forms[(i+1)%len(forms)], 1)
		}
	}
	names := strings.Split(server.Do("KEYS", "*"), "\n")
	if len(names) != 6*5 { // keys times algorithms
		t.Errorf("%d keys: %q", len(names), names)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "mine:") || len(name) > len("mine:sliding_window#")+128 {
			t.Errorf("%q is not where it should be", name)
		}
		ttl, err := strconv.Atoi(server.Do("PTTL", name))
		if most := 2*24*time.Hour + 15*time.Second; err != nil || ttl <= 0 || time.Duration(ttl)*time.Millisecond > most {
			t.Errorf("%q lives for %d ms", name, ttl)
		}
	}
}

// The key of a window of 10 ms lives for milliseconds, not for ten thousand.
func TestExpiryIsInMilliseconds(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "unit")
	for _, per := range []time.Duration{10 * time.Millisecond, time.Second, time.Hour, 366 * 24 * time.Hour} {
		for _, spec := range []stint.Spec{
			{Algorithm: stint.TokenBucket},
			{Algorithm: stint.FixedWindow},
			{Algorithm: stint.SlidingLog},
			{Algorithm: stint.SlidingWindow},
			{Algorithm: stint.LeakyBucket, Burst: 4},
		} {
			spec.Requests, spec.Per = 5, per
			key := stint.Key(per.String())
			take(t, s, key, stint.MustLimit(spec), 5)
			name := "unit:" + spec.Algorithm.String() + ":" + string(key)
			ms, err := strconv.Atoi(server.Do("PTTL", name))
			if ttl := time.Duration(ms) * time.Millisecond; err != nil || ttl <= 0 || ttl > 2*per+15*time.Second {
				t.Errorf("%s: %v %v", name, ttl, err)
			}
		}
	}
}

// A call whose At is the present writes keys that live no longer than others.
func TestTimeOfTheCallIsThePresent(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "now")
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second})
	for at, most := range map[time.Duration]time.Duration{-time.Second: 17 * time.Second, -24 * time.Hour: time.Hour + 2*time.Second} {
		key := stint.Key(at.String())
		call := stint.Call{At: stint.At(time.Now().Add(at)), Takes: []stint.Take{{Key: key, Limit: limit, Cost: 5, Op: stint.Force}}}
		if err := s.Decide(t.Context(), &call); err != nil {
			t.Fatal(err)
		}
		ms, err := strconv.Atoi(server.Do("PTTL", "now:token_bucket:"+string(key)))
		if ttl := time.Duration(ms) * time.Millisecond; err != nil || ttl > most || ttl < most-7*time.Second {
			t.Errorf("at %v: %v %v, want about %v", at, ttl, err, most)
		}
	}
}

// Two services with different namespaces pass 5 of 5 each, two with the same namespace 5 together.
func TestNamespaces(t *testing.T) {
	server := testkit.StartRedis(t)
	limit := stint.MustLimit(stint.Spec{Requests: 5, Per: 24 * time.Hour, FromFirst: true})
	passed := func(s *redis.Store) (n int) {
		for range 5 {
			if take(t, s, "key", limit, 1).Allowed {
				n++
			}
		}
		return n
	}
	for _, namespace := range []string{"a", "b", "a.b", "A"} {
		if n := passed(openIn(t, server, namespace)); n != 5 {
			t.Errorf("%d of 5 passed in %q", n, namespace)
		}
		if n := passed(openIn(t, server, namespace)); n != 0 {
			t.Errorf("%d more passed in %q", n, namespace)
		}
	}
}

// A key without an expiry, which somebody planted or an old release left, gets one.
func TestImmortalKeysAreHealed(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "heal")
	for _, limit := range forms {
		for _, cost := range []uint32{0, 1, 50} {
			for _, beside := range []int{0, 1} { // with and without another take in the call
				key := stint.Key(fmt.Sprint(cost, "+", beside))
				take(t, s, key, limit, 100)
				name := "heal:" + limit.Algorithm().String() + ":" + string(key)
				if server.Do("PERSIST", name) != "1" {
					continue // it began used up, and nothing passed
				}
				asked := 0
				for asked < 1000 && server.Do("PTTL", name) == "-1" { // takes at most five milliseconds
					decide(t, s, []stint.Take{{Key: key, Limit: limit, Cost: cost}, {Key: "other", Limit: limit}}[:1+beside]...)
					asked++
				}
				if asked == 1000 || asked > 1 && cost == 0 {
					t.Errorf("%s lives for ever after %d takes of %d", name, asked, cost)
				}
			}
		}
	}
}

// The values in Redis are those that the comments describe.
func TestWhatStandsInRedis(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "see")
	at := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for i, want := range []struct{ kind, name, text string }{
		{"string", "token_bucket:0", "1b 100 60000000 100|1767225601200000"},
		{"string", "token_bucket:1", "1s 100 60000000 100|2945376002"},
		{"string", "token_bucket:2", "1h 100 60000000 100|1767225601200000 1767225600000000 2"},
		{"string", "leaky_bucket:3", "1q 100 60000000 99|1767225601200000"},
		{"string", "fixed_window:4", "1w 100 60000000|1767225600000000 2"},
		{"string", "fixed_window:5", "1f 100 60000000|1767225600000000 2"},
		{"string", "fixed_window:6", "1c 100 1 UTC|1767225600000000 2 1767312000000000"},
		{"list", "sliding_log:7", "1l 100 60000000|0 2 1767225600000000\n1767225600000000\n2"},
		{"hash", "sliding_window:8", "\n1k 100 60000000 10|0\n294537600\n2"},
	} {
		call := stint.Call{At: at, Takes: []stint.Take{{Key: stint.Key(fmt.Sprint(i)), Limit: forms[i], Cost: 2}}}
		if err := s.Decide(t.Context(), &call); err != nil {
			t.Fatal(err)
		}
		name := "see:" + want.name
		if kind := server.Do("TYPE", name); kind != want.kind {
			t.Errorf("%s is a %s, want %s", name, kind, want.kind)
			continue
		}
		read := map[string][]string{"string": {"GET", name}, "list": {"LRANGE", name, "0", "-1"}, "hash": {"HGETALL", name}}[want.kind]
		if text := server.Do(read...); text != want.text {
			t.Errorf("%s: %q, want %q", name, text, want.text)
		}
	}
}

// A value that is not ours, or a later release's, causes an error with a hint, and stays; the other
// keys of the call stay unchanged.
func TestForeignStates(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "alien")
	good := stint.Take{Key: "good", Limit: forms[0], Cost: 1}
	for _, plant := range [][]string{
		{"SET", "alien:token_bucket:a", "7"},
		{"SET", "alien:token_bucket:a", "2b 100 60000000 100|1767225601200000"},
		{"SET", "alien:token_bucket:a", "1z 100|1"},
		{"RPUSH", "alien:token_bucket:a", "1"},
		{"RPUSH", "alien:leaky_bucket:a", "1"},
		{"RPUSH", "alien:fixed_window:a", "1"},
		{"SET", "alien:fixed_window:a", "1w 100 60000000|x"},
		{"SET", "alien:token_bucket:a", "1b 100 60000000 100|x"},
		{"SET", "alien:token_bucket:a", ""},
		{"SET", "alien:sliding_log:a", "1"},
		{"RPUSH", "alien:sliding_log:a", "1"},
		{"HSET", "alien:sliding_window:a", "1", "1"},
		{"SET", "alien:sliding_window:a", "1"},
	} {
		server.Do("DEL", plant[1])
		server.Do(plant...)
		limit := forms[0]
		for _, l := range forms {
			if strings.Contains(plant[1], l.Algorithm().String()) {
				limit = l
			}
		}
		before := take(t, s, "good", forms[0], 0).Remaining
		call := stint.Call{Takes: []stint.Take{good, {Key: "a", Limit: limit, Cost: 1}}}
		err := s.Decide(t.Context(), &call)
		var problem *redis.Error
		if !errors.As(err, &problem) || problem.Hint == "" || errors.Is(err, stint.ErrUnknown) {
			t.Errorf("%q: %v", plant, err)
		}
		if after := take(t, s, "good", forms[0], 0).Remaining; after < before {
			t.Errorf("%q: the key beside it was charged", plant)
		}
		server.Do("DEL", plant[1])
	}
}

// A server whose clock differs from the node's decides by its own clock, even if calendar windows
// have to be computed for it.
func TestTheServersClockDecides(t *testing.T) {
	server := testkit.StartRedis(t)
	for _, off := range []time.Duration{-3 * 365 * 24 * time.Hour, -5 * time.Minute, 0, 5 * time.Minute, 90 * 24 * time.Hour} {
		s, err := redis.Open(server.URL(), redis.Options{Namespace: "clock", Clock: func() time.Time { return time.Now().Add(off) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		for i, limit := range forms {
			d := take(t, s, stint.Key(off.String()), limit, 1)
			if apart := time.Until(d.At.Time()).Abs(); apart > time.Minute {
				t.Errorf("form %d, a node %v off: decided at %v", i, off, d.At.Time())
			}
		}
	}
	days := stint.MustLimit(stint.Spec{Requests: 5, Calendar: stint.Day})
	near, far := openIn(t, server, "days"), openIn(t, server, "days")
	today := func(d stint.Decision) int { return d.At.Time().UTC().YearDay() }
	first := take(t, near, "a", days, 2)
	if d := take(t, far, "a", days, 1); d.Remaining != 2 && today(d) == today(first) {
		t.Errorf("%+v after %+v", d, first)
	}
}

// Unlimited takes need no server, and pass while it is down.
func TestUnlimitedAsksNobody(t *testing.T) {
	s, err := redis.Open("redis://127.0.0.1:1", redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: limit, Cost: 1}, {Key: "b", Limit: limit, Cost: 1, Independent: true}}}
	if err := s.Decide(context.Background(), &call); err != nil || !call.Results[0].Allowed || call.Results[1].At == 0 {
		t.Errorf("%+v %v", call.Results, err)
	}
}

// A call that must be sent twice, as the node's calendar is wrong, and fails the second time was
// not charged, and its error says so.
func TestAskedTwiceInVain(t *testing.T) {
	server := testkit.StartRedis(t)
	s, err := redis.Open(server.URL(), redis.Options{Namespace: "twice", Clock: func() time.Time { return time.Now().AddDate(0, 3, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	server.Do("CONFIG", "SET", "maxmemory", "1")
	err = s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{
		{Key: "a", Limit: forms[6], Cost: 1},
		{Key: "b", Limit: stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited}), Cost: 1, Independent: true},
	}})
	if err == nil || !strings.Contains(err.Error(), "OOM") || errors.Is(err, stint.ErrUnknown) {
		t.Errorf("%v", err)
	}
}
