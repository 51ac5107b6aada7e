package facts

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
	"stint/rule"
)

// rusageThread makes getrusage measure one thread; see getrusage(2).
const rusageThread = 1

// threadTime returns the processor time of this thread.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// In the background facts take at most 10 ms a second of a processor at 100,000 decisions a second, whether
// they are denied or not, of few keys or each of a new one.
func TestBackground(t *testing.T) {
	if testkit.Race {
		t.Log("the race detector makes everything slower: measured without it")
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const perFlush = int(100_000 * flushEvery / time.Second)
	for name, keys := range map[string]int{"new keys": 1 << 30, "100 keys": 100} {
		for _, denies := range []bool{true, false} {
			rules := table(t, denying)
			f, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			f.Reloaded(rules, true)
			l := limiter.New(denier{func(stint.Key) bool { return denies }}, rules, limiter.Options{Observer: f})
			v := make([]limiter.Verdict, 8)
			req := limiter.Request{Domain: "api", Descriptors: []limiter.Descriptor{{Entries: make([]rule.Entry, 1), Cost: 1}}}
			var seconds []time.Duration
			n := 0
			for range 15 {
				took := time.Duration(0)
				for range int(time.Second / flushEvery) {
					for range perFlush {
						n++
						req.Descriptors[0].Entries[0] = rule.Entry{Key: "user", Value: fmt.Sprint(n % keys)}
						if err := l.Decide(context.Background(), &req, &v[n%len(v)]); err != nil {
							t.Fatal(err)
						}
					}
					before := threadTime(t)
					f.Flush()
					took += threadTime(t) - before
				}
				seconds = append(seconds, took)
			}
			slices.Sort(seconds)
			median := seconds[len(seconds)/2]
			t.Logf("%s, denied %v: %v a second", name, denies, median)
			if median > 10*time.Millisecond {
				t.Errorf("%s, denied %v: %v a second", name, denies, median)
			}
		}
	}
}
