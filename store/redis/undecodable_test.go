package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
)

// spoil stores under a name a value that is no state of any limit.
var spoil = map[string][]string{
	"list":                {"RPUSH", "", "x"},
	"set":                 {"SADD", "", "x"},
	"hash":                {"HSET", "", "a", "b"},
	"sorted set":          {"ZADD", "", "1", "x"},
	"stream":              {"XADD", "", "*", "a", "b"},
	"empty text":          {"SET", "", ""},
	"text":                {"SET", "", "x"},
	"another release":     {"SET", "", "2b 100 60000000 100|5"},
	"another algorithm":   {"SET", "", "1z 100|5"},
	"a head alone":        {"SET", "", "1b|"},
	"no numbers":          {"SET", "", "1b x y z|1"},
	"a log in a text":     {"SET", "", "1l 100 60000000|5"},
	"a window's numbers":  {"SET", "", "1w x|5 5"},
	"a calendar":          {"SET", "", "1c 100 9 Nowhere|5 5"},
	"a torn hold":         {"SET", "", "1h 100 60000000 100|x"},
	"no number":           {"SET", "", "1b 100 60000000 100|nan"},
	"too large a number":  {"SET", "", "1b 100 60000000 100|1e300"},
	"less than nothing":   {"SET", "", "1b 100 60000000 100|-2"},
	"loans without words": {"SET", "", "1b 100 60000000 100|1~x"},
}

// A key whose state cannot be read is named in the error, affects only the takes that are decided
// as one with it, and works again when it is deleted or reset.
func TestUndecodable(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "undecodable")
	for _, limit := range forms {
		fresh := takeAt(t, s, noon, "fresh", limit, 0).Remaining
		for what, words := range spoil {
			name := "undecodable:" + limit.Algorithm().String() + ":bad"
			words = slices.Clone(words)
			words[1] = name
			server.Do("DEL", name)
			server.Do(words...)
			one := stint.Call{Takes: []stint.Take{{Key: "bad", Limit: limit, Cost: 1}}}
			if _, is := errors.AsType[*stint.CorruptState](s.Decide(t.Context(), &one)); !is {
				t.Errorf("%s of %s alone is not named", what, name)
			}
			two := stint.Call{Takes: []stint.Take{{Key: "never", Limit: limit, Cost: 1}, {Key: "bad", Limit: limit, Cost: 1}}}
			if undecodable, is := errors.AsType[*stint.CorruptState](s.Decide(t.Context(), &two)); !is || !slices.Equal(undecodable.Takes, []int{1}) {
				t.Errorf("%s of %s with another is not named", what, name)
			}
			before := takeAt(t, s, noon, "good", limit, 0).Remaining
			call := stint.Call{At: noon, Takes: []stint.Take{
				{Key: "good", Limit: limit, Cost: 1, Independent: true},
				{Key: "alone", Limit: limit, Cost: 1},
				{Key: "bad", Limit: limit, Cost: 1},
				{Key: "bad", Limit: limit, Cost: 1, Independent: true},
				{Key: "good", Limit: limit, Cost: 1, Independent: true},
			}}
			err := s.Decide(t.Context(), &call)
			undecodable, is := errors.AsType[*stint.CorruptState](err)
			if !is || !slices.Equal(undecodable.Takes, []int{2, 3}) || errors.Is(err, stint.ErrUnknown) {
				t.Fatalf("%s of %s: %v, want that takes 2 and 3 cannot be read", what, name, err)
			}
			if problem, _ := errors.AsType[*redis.Error](err); problem == nil || problem.Hint == "" || !strings.Contains(err.Error(), `"`+name+`"`) {
				t.Errorf("%s of %s: %v, want the key and a hint", what, name, err)
			}
			if !call.Results[0].Allowed || !call.Results[4].Allowed || takeAt(t, s, noon, "good", limit, 0).Remaining != before-2 {
				t.Errorf("%s of %s: %+v of the good key, which had %d left", what, name, call.Results[4], before)
			}
			if d := takeAt(t, s, noon, "alone", limit, 0); d.Remaining != fresh {
				t.Errorf("%s of %s: charged what is decided as one with it: %+v", what, name, d)
			}
			decideAt(t, s, noon, stint.Take{Key: "good", Limit: limit, Op: stint.Reset})
			decideAt(t, s, noon, stint.Take{Key: "bad", Limit: limit, Op: stint.Reset})
			if d := takeAt(t, s, noon, "bad", limit, 1); d.Remaining != fresh-1 {
				t.Errorf("%s of %s, after a reset: %+v", what, name, d)
			}
		}
	}
}

// undecodableOnCluster: of keys in several partitions, one that cannot be read affects only the
// takes that are decided as one with it, and nothing of these stays charged.
func undecodableOnCluster(t *testing.T, cluster *testkit.RedisCluster) {
	s, limit := openCluster(t, cluster), forms[0]
	takes := []stint.Take{{Key: "bad", Limit: limit, Cost: 1}}
	for i := range 8 {
		takes = append(takes, stint.Take{Key: stint.Key(fmt.Sprint("good", i)), Limit: limit, Cost: 1}, stint.Take{Key: stint.Key(fmt.Sprint("apart", i)), Limit: limit, Cost: 1, Independent: true})
	}
	decideAt(t, s, noon, takes...)
	for _, server := range cluster.Primaries() {
		if names := server.Do("KEYS", "*:token_bucket:bad"); names != "" {
			server.Do("DEL", names)
			server.Do("RPUSH", names, "x")
		}
	}
	call := stint.Call{At: noon, Takes: takes}
	err := s.Decide(t.Context(), &call)
	undecodable, is := errors.AsType[*stint.CorruptState](err)
	if !is || !slices.Equal(undecodable.Takes, []int{0}) || errors.Is(err, stint.ErrUnknown) {
		t.Fatalf("%v, want that take 0 cannot be read", err)
	}
	for i := range 8 {
		if d := takeAt(t, s, noon, takes[1+2*i].Key, limit, 0); d.Remaining != 99 {
			t.Errorf("%s was charged with one that cannot be read: %+v", takes[1+2*i].Key, d)
		}
		if d := call.Results[2+2*i]; !d.Allowed || d.Remaining != 98 {
			t.Errorf("%s: %+v", takes[2+2*i].Key, d)
		}
	}

	// A denied take may leave a debt before another state turns out to be unreadable.
	over := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Hour, Burst: 10, Overdraw: true})
	for i := range 3 {
		owes := stint.Key(fmt.Sprint("owes", i))
		decide(t, s, stint.Take{Key: owes, Limit: over, Cost: 10})
		before := take(t, s, owes, over, 0).ResetAfter
		err := s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: owes, Limit: over, Cost: 5}, {Key: "bad", Limit: limit, Op: stint.Force, Cost: 1}}})
		if owed := take(t, s, owes, over, 0).ResetAfter > before; owed != errors.Is(err, stint.ErrUnknown) {
			t.Errorf("%v, and what was denied owes: %v", err, owed)
		}
	}
}
