package testkit

import (
	"strings"
	"testing"
)

// A Cluster of tests serves from the moment it is returned.
func TestStartCluster(t *testing.T) {
	c := StartRedisCluster(t, 3)
	if n := len(c.Primaries()); n != 3 {
		t.Errorf("%d primaries", n)
	}
}

// Sentinels of tests name another primary when theirs is gone.
func TestStartSentinels(t *testing.T) {
	s := StartSentinels(t, 2)
	first := s.Primary()
	if first != s.Servers[0] {
		t.Fatalf("the primary is %v", first)
	}
	first.Stop()
	Until(t, "another primary is named", func() bool {
		now := s.Primary()
		return now != nil && now != first && strings.Contains(now.Do("INFO", "replication"), "role:master")
	})
}
