package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// A replica replaces a primary whose clock was a day ahead: keys that were used up there deny, but
// no longer than a full use from now plus the difference that clocks may have.
func TestPrimaryWhoseClockRanAhead(t *testing.T) {
	t.Parallel()
	primary, replica := testkit.StartRedisAhead(t, 24*time.Hour, "--repl-diskless-sync-delay", "0"), testkit.StartRedis(t)
	if ahead := clockOf(t, primary).Sub(clockOf(t, replica)).Round(time.Minute); ahead != 24*time.Hour {
		t.Fatalf("the primary is %v ahead", ahead)
	}
	host, port, _ := strings.Cut(primary.Addr, ":")
	if answer := replica.Do("REPLICAOF", host, port); answer != "OK" {
		t.Fatal(answer)
	}
	const clocksDiffer = 5 * time.Second
	before := openIn(t, primary, "ahead")
	for i, limit := range forms {
		take(t, before, stint.Key(fmt.Sprint("used", i)), limit, 100)
	}
	testkit.Until(t, "the replica has all", func() bool { return replica.Do("DBSIZE") == primary.Do("DBSIZE") })
	primary.Stop()
	if answer := replica.Do("REPLICAOF", "NO", "ONE"); answer != "OK" {
		t.Fatal(answer)
	}
	after := openIn(t, replica, "ahead")
	for i, limit := range forms {
		wait := func(key stint.Key, limit *stint.Limit) time.Duration {
			d := take(t, after, key, limit, 100)
			return max(d.RetryAfter, d.Delay)
		}
		most := limit.Spec().Per // part of its window may be over already
		if limit.Spec().Calendar == stint.Day {
			most = 24 * time.Hour
		}
		spec := limit.Spec()
		spec.StartUsedUp = false // otherwise the time before counts as used
		empty := stint.MustLimit(spec)
		full := func(key string) time.Duration {
			fresh := stint.Key(fmt.Sprint(key, i))
			take(t, after, fresh, empty, 100)
			return wait(fresh, empty)
		}
		before := full("before")
		got := wait(stint.Key(fmt.Sprint("used", i)), limit)
		most = max(most, before, full("after")) + clocksDiffer // a block may end between two
		if got <= 0 || got > most {
			t.Errorf("%v: to be waited for: %v, want at most %v", limit.Algorithm(), got, most)
		}
	}
}

// clockOf returns the time of a server.
func clockOf(t *testing.T, server *testkit.RedisServer) time.Time {
	t.Helper()
	seconds, _, _ := strings.Cut(server.Do("TIME"), "\n")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(n, 0)
}
