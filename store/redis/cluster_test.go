package redis_test

import (
	"fmt"
	"testing"

	"stint"
	"stint/internal/testkit"
	"stint/store/redis"
	"stint/store/storetest"
)

// openCluster returns an empty store on the Cluster.
func openCluster(t testing.TB, cluster *testkit.RedisCluster) *redis.Store {
	t.Helper()
	s, err := redis.Open(cluster.URL(), redis.Options{Namespace: fmt.Sprint("test", stores.Add(1))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestSuiteOnCluster(t *testing.T) {
	cluster := testkit.StartRedisCluster(t, 3)
	cluster.Timeout(testkit.Steady)
	next := renewed(func() *redis.Store { return openCluster(t, cluster) })
	storetest.Run(t, storetest.Options{
		New:       func(t testing.TB) stint.Store { s, _ := next(t); return s },
		Lends:     true,
		Slow:      true,
		Scattered: true,
	})
	t.Run("undecodable", func(t *testing.T) { undecodableOnCluster(t, cluster) })
}
