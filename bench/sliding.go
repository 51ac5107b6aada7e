package main

import (
	"fmt"
	"runtime"
	"time"

	"stint"
	"stint/store/memory"
)

// slidingBytes returns the bytes of a key that takes a million units a minute, one after another:
// with a sliding log, and with a sliding window of 60 blocks.
func slidingBytes() (log, blocks float64) {
	return bytesAt(stint.Spec{Algorithm: stint.SlidingLog}, 4, 1), bytesAt(stint.Spec{Algorithm: stint.SlidingWindow, Blocks: 60}, 256, 100)
}

// bytesAt lets each of so many keys take a million units a minute for a minute and a half, cost
// units at once, and returns the bytes of heap for one key.
func bytesAt(spec stint.Spec, keys int, cost uint32) float64 {
	const perMinute = 1_000_000
	spec.Requests, spec.Per = perMinute, time.Minute
	limit := stint.MustLimit(spec)
	names := make([]stint.Key, keys)
	for i := range names {
		names[i] = stint.Key(fmt.Sprint("key", i))
	}
	step := stint.Instant(time.Minute/time.Microsecond) / perMinute * stint.Instant(cost)
	now := stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	before := heap()
	store := memory.New(memory.Options{Clock: func() stint.Instant { return now }})
	empty := heap() - before
	for range perMinute / int(cost) * 3 / 2 {
		now += step
		for _, key := range names {
			store.Take(key, limit, cost)
		}
	}
	full := heap() - before
	runtime.KeepAlive(store)
	return (full - empty) / float64(keys)
}
