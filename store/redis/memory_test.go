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

// A key needs at most as much memory in Redis as docs/redis.md says: the bytes of MEMORY USAGE for
// a key of 40 bytes in all, after as many takes as its limit allows.
func TestMemoryPerKey(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "mem")
	spare := 0
	if strings.Contains(server.Do("INFO", "memory"), "mem_allocator:libc") {
		spare = 32 // glibc returns a whole block if the rest is too small to keep
	}
	long := 10_000
	if testing.Short() {
		long = 1000
	}
	for _, test := range []struct {
		spec  stint.Spec
		takes int
		most  int
	}{
		{stint.Spec{Algorithm: stint.TokenBucket, Requests: 100}, 100, 136},
		{stint.Spec{Algorithm: stint.LeakyBucket, Requests: 100, Burst: 100}, 100, 136},
		{stint.Spec{Algorithm: stint.FixedWindow, Requests: 100}, 100, 136},
		{stint.Spec{Algorithm: stint.SlidingWindow, Requests: 100}, 100, 140},
		{stint.Spec{Algorithm: stint.SlidingWindow, Requests: 100, Blocks: 10}, 100, 204},
		{stint.Spec{Algorithm: stint.SlidingLog, Requests: 100}, 100, 310 + 14*99},
		{stint.Spec{Algorithm: stint.SlidingLog, Requests: uint32(long)}, long, 14 * long},
	} {
		test.spec.Per = time.Hour
		limit := stint.MustLimit(test.spec)
		prefix := "mem:" + test.spec.Algorithm.String() + ":"
		key := stint.Key(fmt.Sprintf("%0*d", 40-len(prefix), test.takes*100+test.spec.Blocks))
		begin := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		for i := range test.takes {
			call := stint.Call{
				At:    begin.Add(time.Duration(i) * time.Hour / time.Duration(test.takes)),
				Takes: []stint.Take{{Key: key, Limit: limit, Cost: 1}},
			}
			if err := s.Decide(t.Context(), &call); err != nil || !call.Results[0].Allowed {
				t.Fatalf("%+v %v", call.Results, err)
			}
		}
		got, err := strconv.Atoi(server.Do("MEMORY", "USAGE", prefix+string(key), "SAMPLES", "0"))
		t.Logf("%v of %d, %d blocks: %d bytes", test.spec.Algorithm, test.spec.Requests, test.spec.Blocks, got)
		if err != nil || got > test.most+spare {
			t.Errorf("%v of %d, %d blocks: %d bytes, want at most %d", test.spec.Algorithm, test.spec.Requests, test.spec.Blocks, got, test.most)
		}
	}
}
