package testkit

import (
	"strings"
	"testing"
)

// A Cluster serves from the moment StartRedisCluster returns.
func TestStartCluster(t *testing.T) {
	c := StartRedisCluster(t, 3)
	if n := len(c.Primaries()); n != 3 {
		t.Errorf("%d primaries", n)
	}
}

// Sentinels choose another primary after theirs has failed.
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
