package redistest

import "testing"

// A Cluster of tests serves from the moment it is returned.
func TestStartCluster(t *testing.T) {
	c := StartCluster(t, 3)
	if n := len(c.Primaries()); n != 3 {
		t.Errorf("%d primaries", n)
	}
}
