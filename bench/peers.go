package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"stint"
	"stint/store/memory"
)

// All limiters get the same limit: six units a minute, so that a key stays for a while after its
// first take, and a burst so large that nothing is denied during the measurement. A denial would be
// cheaper, because it writes nothing.
const (
	perMinute = 6
	atOnce    = 150_000_000
)

// contender is a limiter under measurement.
type contender struct {
	name string
	role role
	make func() taker
}

// taker takes from a key, given as text and as number.
type taker struct {
	take  func(key string, number uint32) bool
	close func()
}

// contenders in the order of the table: the floor, ours, the peers.
var contenders = []contender{
	{"floor: GCRA by compare-and-swap in an array", isFloor, newFloor},
	{"stint/store/memory", isOurs, newStint},
	{"go-chi/httprate (counter, racy)", isPeer, newHTTPRate},
	{"sethvargo/go-limiter (memorystore)", isPeer, newGoLimiter},
	{"throttled/throttled v2 (memstore)", isPeer, newThrottled},
	{"golang.org/x/time/rate in a map", isPeer, newXTime},
	{"ulule/limiter v3 (memory)", isPeer, newUlule},
}

// newFloor is the cost of a decision without a key: one reading of the clock, one load and one
// compare-and-swap.
func newFloor() taker {
	const charge = int64(time.Minute/time.Microsecond) / perMinute
	base := time.Now()
	cells := make([]atomic.Int64, keyCount)
	return taker{take: func(_ string, number uint32) bool {
		cell := &cells[number]
		for {
			now := int64(time.Since(base) / time.Microsecond)
			was := cell.Load()
			next := max(was, now) + charge
			if next-now > atOnce*charge {
				return false
			}
			if cell.CompareAndSwap(was, next) {
				return true
			}
		}
	}}
}

func newStint() taker {
	store := memory.New(memory.Options{})
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: perMinute, Per: time.Minute, Burst: atOnce})
	return taker{take: func(key string, _ uint32) bool { return store.Take(stint.Key(key), limit, 1).Allowed }}
}

// newHTTPRate uses httprate's counter as its middleware does, but without the request and its
// headers, and without computing the start of the hour for each request. The middleware locks both
// steps together; here two goroutines may both get the last unit.
func newHTTPRate() taker {
	const window = time.Hour
	counter := httprate.NewLocalLimitCounter(window)
	start := time.Now().UTC().Truncate(window)
	counter.Config(atOnce, window)
	return taker{take: func(key string, _ uint32) bool {
		passed := float64(time.Since(start)) / float64(window)
		now, before, err := counter.Get(key, start, start.Add(-window))
		if err != nil || float64(now)+float64(before)*(1-passed) >= atOnce {
			return false
		}
		return counter.IncrementBy(key, start, 1) == nil
	}}
}

func newGoLimiter() taker {
	store, err := memorystore.New(&memorystore.Config{Tokens: atOnce, Interval: time.Hour})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	return taker{
		take: func(key string, _ uint32) bool {
			_, _, _, ok, err := store.Take(ctx, key)
			return ok && err == nil
		},
		close: func() { _ = store.Close(ctx) }, // the only possible error is that it was closed before
	}
}

func newThrottled() taker {
	store, err := memstore.NewCtx(0)
	if err != nil {
		panic(err)
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(perMinute), MaxBurst: atOnce - 1})
	if err != nil {
		panic(err)
	}
	limiter.SetMaxCASAttemptsLimit(1 << 20) // it gives up after 10, which two goroutines reach
	ctx := context.Background()
	return taker{take: func(key string, _ uint32) bool {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited && err == nil
	}}
}

// newXTime is the usual limiter around x/time/rate: a map and a lock.
func newXTime() taker {
	var mu sync.Mutex
	limiters := map[string]*rate.Limiter{}
	return taker{take: func(key string, _ uint32) bool {
		mu.Lock()
		l := limiters[key]
		if l == nil {
			l = rate.NewLimiter(perMinute/60.0, atOnce)
			limiters[key] = l
		}
		mu.Unlock()
		return l.Allow()
	}}
}

func newUlule() taker {
	l := limiter.New(ululememory.NewStore(), limiter.Rate{Period: time.Hour, Limit: atOnce})
	ctx := context.Background()
	return taker{take: func(key string, _ uint32) bool {
		c, err := l.Get(ctx, key)
		return err == nil && !c.Reached
	}}
}
