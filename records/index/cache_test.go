package index

import "testing"

// The cache never has more values than its size, whether values are added, dropped or cleared; a value
// that is used often stays.
func TestBounded(t *testing.T) {
	c := NewCache[int, int]()
	always := func() bool { return true }
	c.Add(-1, 1, always)
	for n := range 40_000 {
		c.Add(n, n, always)
		if n%3 == 0 {
			c.Drop(n)
		}
		if _, ok := c.Get(-1); !ok {
			t.Fatalf("after %d others a busy value was evicted", n)
		}
		if n == 20_000 {
			c.Clear()
			c.Add(-1, 1, always)
		}
	}
	if got := c.Len(); got < 6_000 || got > 10_000 {
		t.Errorf("%d values", got)
	}
	for i := range c.shards {
		if ring := len(c.shards[i].ring); ring > shardMost {
			t.Errorf("a shard of %d", ring)
		}
	}
}

// A value that is no longer valid is not added, and a value is not replaced.
func TestAdd(t *testing.T) {
	c := NewCache[string, int]()
	c.Add("a", 1, func() bool { return false })
	if _, ok := c.Get("a"); ok {
		t.Error("an invalid value was added")
	}
	c.Add("a", 2, func() bool { return true })
	c.Add("a", 3, func() bool { return true })
	if got, ok := c.Get("a"); !ok || got != 2 {
		t.Errorf("%d, %v", got, ok)
	}
}
