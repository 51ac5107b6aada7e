package pace_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble returns a store with the fake time of synctest.
func bubble() *memory.Store {
	return memory.New(memory.Options{Clock: func() stint.Instant { return stint.At(time.Now()) }})
}

// within returns a context that ends d from now; with 0 it never ends.
func within(t *testing.T, d time.Duration) context.Context {
	if d == 0 {
		return t.Context()
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

var (
	perSecond  = stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second}
	steps      = stint.Spec{Algorithm: stint.TokenBucket, Requests: 2, Per: time.Second, Step: true}
	leaky      = stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1, Per: time.Second, Burst: 1}
	fixed      = stint.Spec{Requests: 2, Per: time.Second}
	fromFirst  = stint.Spec{Requests: 2, Per: time.Second, FromFirst: true}
	slidingLog = stint.Spec{Algorithm: stint.SlidingLog, Requests: 2, Per: time.Second}
	sliding    = stint.Spec{Algorithm: stint.SlidingWindow, Requests: 2, Per: time.Second}
	none       = stint.Spec{Algorithm: stint.TokenBucket, Per: time.Second}
)

// Each of several concurrent callers passes as soon as the limit allows.
func TestWaitPasses(t *testing.T) {
	ms := func(n ...int) []time.Duration {
		var all []time.Duration
		for _, n := range n {
			all = append(all, time.Duration(n)*time.Millisecond)
		}
		return all
	}
	for _, test := range []struct {
		name string
		spec stint.Spec
		want []time.Duration
	}{
		{"token_bucket", perSecond, ms(0, 1000, 2000, 3000)},
		{"token_bucket in steps", steps, ms(0, 0, 1000, 1000, 2000)},
		{"leaky_bucket", leaky, ms(0, 1000, 2000, 3000)},
		{"fixed_window", fixed, ms(0, 0, 1000, 1000, 2000)},
		{"fixed_window from first", fromFirst, ms(0, 0, 1000, 1000, 2000)},
		{"sliding_log", slidingLog, ms(0, 0, 1000, 1000, 2000)},
		{"sliding_window", sliding, ms(0, 0, 1000, 1500, 2000)},
		{"overdraw", stint.Spec{Requests: 1, Per: time.Second, Overdraw: true}, ms(0, 1000, 2000)},
		{"count_denied", stint.Spec{Algorithm: stint.SlidingLog, Requests: 1, Per: time.Second, CountDenied: true}, ms(0, 1000, 2000)},
		{"unlimited", stint.Spec{Algorithm: stint.Unlimited}, ms(0, 0, 0)},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pace.New(bubble(), "k", stint.MustLimit(test.spec))
				begun := time.Now()
				got := make([]time.Duration, len(test.want))
				var group sync.WaitGroup
				for i := range got {
					group.Go(func() {
						if err := p.Wait(t.Context(), 1); err != nil {
							t.Errorf("caller %d: %v", i, err)
						}
						got[i] = time.Since(begun).Round(time.Millisecond)
					})
					synctest.Wait() // until it waits or has passed
				}
				group.Wait()
				if !slices.Equal(got, test.want) {
					t.Errorf("passed at %v, want %v", got, test.want)
				}
			})
		})
	}
}

// A caller that cannot pass in time is refused immediately and charged nothing.
func TestWaitRefuses(t *testing.T) {
	for _, test := range []struct {
		name     string
		spec     stint.Spec
		ahead    int           // earlier callers that take or wait
		cost     uint32        // cost of the caller
		deadline time.Duration // 0 for none
		want     error         // nil if it passes
		wait     time.Duration // wait in the refusal
	}{
		{"more than ever", perSecond, 0, 2, 0, pace.ErrNever, stint.Never},
		{"limit of none", none, 0, 1, 0, pace.ErrNever, stint.Never},
		{"limit of none, nothing asked", none, 0, 0, 0, nil, 0},
		{"first", perSecond, 0, 1, time.Millisecond, nil, 0},
		{"just in time", perSecond, 1, 1, time.Second + time.Microsecond, nil, 0},
		{"at the deadline", perSecond, 1, 1, time.Second, pace.ErrTooLate, time.Second},
		{"behind others, in time", perSecond, 5, 1, 5*time.Second + 1, nil, 0},
		{"behind others", perSecond, 5, 1, 4999 * time.Millisecond, pace.ErrTooLate, 5 * time.Second},
		{"behind more than there is time", stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: stint.MaxPer}, 400, 1, time.Hour, pace.ErrTooLate, stint.Never - 1},
		{"leaky, behind others", leaky, 5, 1, 4999 * time.Millisecond, pace.ErrTooLate, 5 * time.Second},
		{"leaky, in time", leaky, 5, 1, 5*time.Second + 1, nil, 0},
		{"in steps, behind others", steps, 6, 1, 3 * time.Second, pace.ErrTooLate, 3 * time.Second},
		{"fixed_window, behind others", fixed, 6, 1, 3 * time.Second, pace.ErrTooLate, 3 * time.Second},
		{"sliding_log, behind others", slidingLog, 6, 1, 3 * time.Second, pace.ErrTooLate, 3 * time.Second},
		{"sliding_window", sliding, 2, 1, time.Second, pace.ErrTooLate, time.Second + time.Microsecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := bubble()
				p := pace.New(store, "k", stint.MustLimit(test.spec))
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				for range test.ahead {
					group.Go(func() { _ = p.Wait(ctx, 1) })
					synctest.Wait()
				}
				begun := time.Now()
				err := p.Wait(within(t, test.deadline), test.cost)
				if !errors.Is(err, test.want) || test.want == nil && err != nil {
					t.Fatalf("got %v, want %v", err, test.want)
				}
				if took := time.Since(begun); test.want != nil && took != 0 {
					t.Errorf("refused after %v, want at once", took)
				}
				refused, ok := errors.AsType[*pace.RefusedError](err)
				if ok && refused.Wait != test.wait {
					t.Errorf("the refusal names %v, want %v", refused.Wait, test.wait)
				}
				if errors.Is(err, pace.ErrTooLate) != errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is not what package context calls it", err)
				}
				cancel()
				group.Wait()
			})
		})
	}
}

// A hundred callers with different costs are served in order of arrival, even if every third one
// cancels while it waits.
func TestWaitIsFair(t *testing.T) {
	for _, spec := range []stint.Spec{
		{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: 3},
		{Algorithm: stint.LeakyBucket, Requests: 10, Per: time.Second, Burst: 5},
		{Algorithm: stint.SlidingLog, Requests: 3, Per: time.Second},
		{Algorithm: stint.SlidingWindow, Requests: 3, Per: time.Second, Blocks: 4},
		{Requests: 3, Per: time.Second},
	} {
		t.Run(spec.Algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pace.New(bubble(), "k", stint.MustLimit(spec))
				begun := time.Now()
				served := make([]time.Duration, 100) // time of service; 0 if canceled
				var group sync.WaitGroup
				random := rand.New(rand.NewPCG(1, 2))
				for i := range 100 {
					ctx, cancel := context.WithCancel(t.Context())
					cost := 1 + random.Uint32N(3)
					group.Go(func() {
						defer cancel()
						if p.Wait(ctx, cost) == nil {
							served[i] = time.Since(begun) + 1
						}
					})
					synctest.Wait()
					if i%3 == 2 {
						time.AfterFunc(time.Duration(random.IntN(5000))*time.Millisecond, cancel)
					}
				}
				group.Wait()
				served = slices.DeleteFunc(served, func(at time.Duration) bool { return at == 0 })
				if !slices.IsSorted(served) || len(served) < 67 {
					t.Errorf("%d were served, in order of arrival at %v", len(served), served)
				}
			})
		})
	}
}

// When a caller leaves the line at any position, those behind it move up.
func TestPlaceOfTheCancelled(t *testing.T) {
	for _, spec := range []stint.Spec{perSecond, leaky} {
		for gone := range 4 {
			synctest.Test(t, func(t *testing.T) {
				p := pace.New(bubble(), "k", stint.MustLimit(spec))
				if err := p.Wait(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				var mu sync.Mutex
				var got []time.Duration
				var group sync.WaitGroup
				for i := range 4 {
					ctx, cancel := context.WithCancel(t.Context())
					group.Go(func() {
						defer cancel()
						if err := p.Wait(ctx, 1); err == nil {
							mu.Lock()
							got = append(got, time.Since(begun))
							mu.Unlock()
						} else if i != gone || !errors.Is(err, context.Canceled) {
							t.Errorf("caller %d: %v", i, err)
						}
					})
					synctest.Wait()
					if i == gone {
						time.AfterFunc(time.Second/2, cancel)
					}
				}
				group.Wait()
				if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(got, want) {
					t.Errorf("%v: without caller %d the others passed at %v, want %v", spec.Algorithm, gone, got, want)
				}
			})
		}
	}
}

// When units are given back or the key is reset, the front asks again.
func TestWaitWakes(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(p *pace.Pacer, first *stint.Decision) error
	}{
		{"given back", func(p *pace.Pacer, first *stint.Decision) error {
			_, err := p.GiveBack(context.Background(), 2, first)
			return err
		}},
		{"reset", func(p *pace.Pacer, _ *stint.Decision) error { return p.Reset(context.Background()) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pace.New(bubble(), "k", stint.MustLimit(stint.Spec{Requests: 2, Per: time.Hour}))
				first, err := p.Take(t.Context(), 2)
				if err != nil || !first.Allowed {
					t.Fatal(first, err)
				}
				begun := time.Now()
				time.AfterFunc(time.Second, func() {
					if err := test.do(p, &first); err != nil {
						t.Error(err)
					}
				})
				if err := p.Wait(t.Context(), 1); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took != time.Second {
					t.Errorf("waited %v, want 1s", took)
				}
			})
		})
	}
}

// Two pacers on one store, as in two processes, share one limit.
func TestWaitTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, limit := bubble(), stint.MustLimit(perSecond)
		begun := time.Now()
		var mu sync.Mutex
		var got []time.Duration
		var group sync.WaitGroup
		for range 2 {
			p := pace.New(store, "k", limit)
			for range 5 {
				group.Go(func() {
					if err := p.Wait(t.Context(), 1); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					got = append(got, time.Since(begun))
				})
			}
		}
		group.Wait()
		for i, at := range got {
			if want := time.Duration(i) * time.Second; at != want {
				t.Errorf("number %d passed after %v, want %v", i, at, want)
			}
		}
	})
}

// slow is a store that answers after 100 ms.
type slow struct{ *memory.Store }

func (s slow) Decide(ctx context.Context, call *stint.Call) error {
	time.Sleep(100 * time.Millisecond) // fake time
	return s.Store.Decide(ctx, call)
}

// Callers behind a front that is still asking are refused when its answer arrives.
func TestRefusedInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(slow{bubble()}, "k", stint.MustLimit(perSecond))
		if err := p.Wait(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for i, test := range []struct {
			deadline time.Duration
			want     error
			took     time.Duration
		}{
			{0, nil, 1100 * time.Millisecond}, // asked at 0 and 1 s
			{1900 * time.Millisecond, pace.ErrTooLate, 100 * time.Millisecond},
			{3 * time.Second, nil, 2200 * time.Millisecond}, // asked at 1.1 s and 2.1 s
		} {
			go func() {
				err := p.Wait(within(t, test.deadline), 1)
				if took := time.Since(begun); !errors.Is(err, test.want) || took != test.took {
					t.Errorf("number %d: %v after %v, want %v after %v", i, err, took, test.want, test.took)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute) // fake time
	})
}

var errBroken = errors.New("broken")

// broken is a store that always fails.
type broken struct{}

func (broken) Decide(context.Context, *stint.Call) error { return errBroken }

// If the store fails, every caller gets the error, and the line continues.
func TestStoreFails(t *testing.T) {
	p := pace.New(broken{}, "k", stint.MustLimit(perSecond))
	ctx := t.Context()
	_, take := p.Take(ctx, 1)
	_, _, upTo := p.TakeAtMost(ctx, 1)
	_, _, force := p.Force(ctx, 1)
	_, reserve := p.Reserve(ctx, 1, 0)
	_, giveBack := p.GiveBack(ctx, 1, nil)
	_, peek := p.Peek(ctx)
	for i, err := range []error{p.Wait(ctx, 1), p.Wait(ctx, 1), take, upTo, force, reserve, giveBack, peek, p.Reset(ctx)} {
		if !errors.Is(err, errBroken) {
			t.Errorf("number %d: got %v, want the store's error", i, err)
		}
	}
}
