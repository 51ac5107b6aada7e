package redis_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// ttlOf returns the value of a key and when the key expires, in microseconds since 1970;
// 0 if never.
func ttlOf(t *testing.T, server *testkit.RedisServer, name string) (value string, end int64) {
	t.Helper()
	// One script, as both times go on.
	answer := server.Do("EVAL", `local ttl = redis.call('PTTL', KEYS[1])
local t = redis.call('TIME')
return {redis.call('GET', KEYS[1]), string.format('%.0f', ttl < 0 and ttl + 1 or t[1] * 1000000 + t[2] + ttl * 1000)}`, "1", name)
	value, text, _ := strings.Cut(answer, "\n")
	end, err := strconv.ParseInt(text, 10, 64)
	if err != nil || end < 0 {
		t.Fatalf("%s: %q", name, answer)
	}
	return value, end
}

// writtenInPlace returns how many values the server got without a TTL.
func writtenInPlace(server *testkit.RedisServer) int {
	_, stats, found := strings.Cut(server.Do("INFO", "commandstats"), "cmdstat_setrange:calls=")
	if !found {
		return 0
	}
	digits, _, _ := strings.Cut(stats, ",")
	n, _ := strconv.Atoi(digits)
	return n
}

// year is so long that no test reaches its end.
const year = 366 * 24 * time.Hour

// ttls are limits whose unit is 1.7 seconds of a bucket, so that some writes need another TTL and
// some do not.
var ttls = []*stint.Limit{
	stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 100, Per: 170 * time.Second}),
	stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 100, Per: 170 * time.Second, Burst: 99}),
	stint.MustLimit(stint.Spec{Requests: 100, Per: year}),
}

// waits is how long a server may wait for a processor between two readings of its clock: before
// Redis 7.2 each command of a script has its own time.
const waits = time.Second

// However a value is written, its key lives 10 to 15 seconds longer than its state.
func TestValuesWrittenInPlaceLiveLongEnough(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "ttl")
	s.KeepTTLsForTest()
	for i := range 40 {
		if i%4 == 0 {
			take(t, s, "a", ttls[0], 1) // by one.lua
		}
		decide(t, s, stint.Take{Key: "a", Limit: ttls[0], Cost: 1}, stint.Take{Key: "a", Limit: ttls[1], Cost: 1}, stint.Take{Key: "a", Limit: ttls[2], Cost: 1})
		for i, limit := range ttls {
			name := "ttl:" + limit.Algorithm().String() + ":a"
			value, end := ttlOf(t, server, name)
			_, digits, _ := strings.Cut(value, "|")
			if i == 2 {
				digits, _, _ = strings.Cut(digits, " ")
			}
			over, err := strconv.ParseInt(digits, 10, 64)
			if i == 2 {
				over += year.Microseconds()
			}
			if spare := time.Duration(end-over) * time.Microsecond; err != nil || spare < 10*time.Second-time.Millisecond || spare > 15*time.Second+waits {
				t.Fatalf("%s, %q: outlives its state by %v", name, value, spare)
			}
		}
	}
	if n := writtenInPlace(server); n < 40 || n > 3*40+10-8 {
		t.Errorf("%d of 130 values were written in place", n)
	}
}

// If the user may not write in place, the scripts write with SET.
func TestValuesNeedNotBeWrittenInPlace(t *testing.T) {
	server := testkit.StartRedis(t)
	if answer := server.Do("ACL", "SETUSER", "default", "-setrange"); answer != "OK" {
		t.Fatal(answer)
	}
	s := openIn(t, server, "ttl")
	s.KeepTTLsForTest()
	for i := range 20 {
		both := decide(t, s, stint.Take{Key: "a", Limit: ttls[0], Cost: 1}, stint.Take{Key: "a", Limit: ttls[2], Cost: 1})
		if d := both[1]; d.Remaining != int64(99-i) {
			t.Fatalf("take %d: %+v", i, d)
		}
		for _, d := range []stint.Decision{both[0], take(t, s, "alone", ttls[0], 1)} {
			if d.Remaining < int64(99-i) { // the bucket refills
				t.Fatalf("take %d: %+v", i, d)
			}
		}
	}
}

// A planted value is written with SET if its digits are not ours.
func TestPlantedDigitsAreNotWrittenInPlace(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "ttl")
	s.KeepTTLsForTest()
	takes := []stint.Take{{Key: "a", Limit: ttls[2], Cost: 1}, {Key: "b", Limit: ttls[2], Cost: 1}}
	decide(t, s, takes...)
	head := strings.TrimSuffix(server.Do("GET", "ttl:fixed_window:a"), "1")
	for _, digits := range []string{"0000005", "5e0", "0x5", "5.0"} {
		server.Do("SET", "ttl:fixed_window:a", head+digits)
		if d := decide(t, s, takes...); d[0].Remaining != 94 {
			t.Fatalf("%q: %+v", digits, d[0])
		}
		if value, _ := ttlOf(t, server, "ttl:fixed_window:a"); value != head+"6" {
			t.Errorf("%q became %q", digits, value)
		}
	}
}

// A key that lost its expiry soon has one again, also under load: when its state needs another, or
// when a group renews all.
func TestEndsAreHealedUnderLoad(t *testing.T) {
	for _, keep := range []bool{true, false} {
		server := testkit.StartRedis(t)
		s := openIn(t, server, "ttl")
		if keep {
			s.KeepTTLsForTest()
		}
		takes := []stint.Take{{Key: "a", Limit: ttls[0], Cost: 1}, {Key: "b", Limit: ttls[0], Cost: 1}}
		decide(t, s, takes...)
		server.Do("PERSIST", "ttl:token_bucket:a")
		asked := 0
		for _, end := ttlOf(t, server, "ttl:token_bucket:a"); end == 0 && asked < 50; asked++ {
			decide(t, s, takes...)
			_, end = ttlOf(t, server, "ttl:token_bucket:a")
		}
		if asked == 50 || keep && asked > 4 {
			t.Errorf("healed after %d takes", asked)
		}
	}
}
