package redis_test

import (
	"fmt"
	"slices"
	"testing"

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

// TestSuiteOnCluster runs as the user that docs/redis-operation.md describes for a Cluster.
func TestSuiteOnCluster(t *testing.T) {
	cluster := testkit.StartRedisCluster(t, 3)
	cluster.Timeout(testkit.Steady)
	u := documented(t)
	storetest.Run(t, storetest.Options{
		New:       renewedAs(t, cluster.URL(), slices.Concat(u.rights, u.cluster), cluster.Nodes...),
		Lends:     true,
		Slow:      true,
		Scattered: true,
	})
	sufficed(t, cluster.Nodes...)
	t.Run("undecodable", func(t *testing.T) { undecodableOnCluster(t, cluster) })
}
