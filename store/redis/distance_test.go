package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// inFlightForTest returns the number of groups in flight.
func (c *committer) inFlightForTest() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inFlight
}

// Every caller of a far server sends at once: no call waits for the answer to another one.
func TestFarCallsDoNotWait(t *testing.T) {
	const callers = 8
	server := testkit.StartRedis(t)
	proxy := testkit.StartProxy(t, server.Addr, testkit.ProxyOptions{Delay: 5 * time.Millisecond})
	s, err := Open("redis://"+proxy.Addr(), Options{})
	testkit.Must(t, err)
	defer s.Close()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1_000_000, Per: time.Second})
	ask := func(i int) error {
		return s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: stint.Key(fmt.Sprint(i)), Limit: limit, Cost: 1}}})
	}
	for range 5 {
		testkit.Must(t, ask(0))
	}
	proxy.Stall()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			if err := ask(i); err != nil {
				t.Error(err)
			}
		})
	}
	for s.commits[0].inFlightForTest() < callers { // the test's deadline ends the loop
		time.Sleep(time.Millisecond) // until all calls are in flight
	}
	proxy.Resume()
	all.Wait()
	if n := s.commits[0].inFlightForTest(); n != 0 {
		t.Errorf("%d groups are still on their way", n)
	}
}

// Calls reach a server that is so far away that a call cannot also connect within its deadline: at
// the start, after each loss of the connections, and after the server lost its scripts.
func TestFarServerIsReached(t *testing.T) {
	server := testkit.StartRedis(t)
	proxy := testkit.StartProxy(t, server.Addr, testkit.ProxyOptions{Delay: 60 * time.Millisecond})
	s, err := Open("redis://"+proxy.Addr(), Options{})
	testkit.Must(t, err)
	defer s.Close()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1_000_000, Per: time.Second})
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		return s.Decide(ctx, &stint.Call{Takes: []stint.Take{{Key: "a", Limit: limit, Cost: 1}}})
	}
	// Without connecting a call takes 120 ms, or twice that if the script is unknown; with
	// connecting at least 360 ms.
	for _, step := range []struct {
		what string
		harm func()
	}{
		{"in the beginning", func() {}},
		{"after a cut", proxy.Cut},
		{"without scripts", func() { server.Do("SCRIPT", "FLUSH") }},
	} {
		step.harm()
		var errs []error
		for {
			err := ask()
			if err == nil {
				break
			}
			if errs = append(errs, err); len(errs) == 20 {
				t.Fatalf("%s: not reached: %v", step.what, errs[len(errs)-1])
			}
		}
	}
}

// A far server lost its connections while nobody called, and now accepts new ones without
// answering. A call then fails at its deadline, and does not wait until the client gives up.
func TestFrozenServerHoldsNoFarCall(t *testing.T) {
	server := testkit.StartRedis(t)
	proxy := testkit.StartProxy(t, server.Addr, testkit.ProxyOptions{Delay: 3 * time.Millisecond})
	s, err := Open("redis://"+proxy.Addr(), Options{})
	testkit.Must(t, err)
	defer s.Close()
	s.ConnectSlowlyForTest()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1_000_000, Per: time.Second})
	ask := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return s.Decide(ctx, &stint.Call{Takes: []stint.Take{{Key: "a", Limit: limit, Cost: 1}}})
	}
	for !s.FarForTest() {
		testkit.Must(t, ask(10*time.Second))
	}
	testkit.Must(t, ask(10*time.Second))
	proxy.Stall()
	proxy.Cut()
	time.Sleep(100 * time.Millisecond) // the client notices the loss while nobody calls
	const within = 20 * time.Millisecond
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			began := time.Now()
			err := ask(within)
			if took := time.Since(began); err == nil || took > 10*time.Second {
				t.Errorf("%v after %v, want an error after %v", err, took, within)
			}
		})
	}
	all.Wait()
	proxy.Resume()
	testkit.Until(t, "the server is reached again", func() bool { return ask(time.Second) == nil })
}

// A call that finds its connection lost waits for the next one, if its deadline allows.
func TestFarCallOutlivesALoss(t *testing.T) {
	server := testkit.StartRedis(t)
	proxy := testkit.StartProxy(t, server.Addr, testkit.ProxyOptions{Delay: 3 * time.Millisecond})
	s, err := Open("redis://"+proxy.Addr(), Options{})
	testkit.Must(t, err)
	defer s.Close()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1_000_000, Per: time.Second})
	ask := func() error {
		return s.Decide(t.Context(), &stint.Call{Takes: []stint.Take{{Key: "a", Limit: limit, Cost: 1}}})
	}
	for !s.FarForTest() {
		testkit.Must(t, ask())
	}
	testkit.Must(t, ask())
	proxy.Cut()
	time.Sleep(100 * time.Millisecond) // the client notices the loss while nobody calls
	testkit.Must(t, ask())
}
