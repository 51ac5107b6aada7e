package redis_test

import (
	"fmt"
	"testing"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
	"stint/store/storetest"
)

// The primary behind Sentinels works like any other server.
func TestSuiteOnSentinels(t *testing.T) {
	t.Parallel() // most of the time servers only find each other
	sentinels := testkit.StartSentinels(t, 1)
	sentinels.Timeout(testkit.Steady)
	start := func(t testing.TB) *redis.Store {
		s, err := redis.Open(sentinels.URL(), redis.Options{Namespace: fmt.Sprint("test", stores.Add(1))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	if d := take(t, start(t), "a", forms[0], 1); d.Remaining != 99 {
		t.Fatalf("%+v", d)
	}
	if testing.Short() {
		return // TestSuite covers the rest on one server
	}
	storetest.Run(t, storetest.Options{
		New:       func(t testing.TB) stint.Store { return start(t) },
		Backwards: true,
		Slow:      true,
	})
}
