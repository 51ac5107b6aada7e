package pace_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/pace"
)

// A reservation has a time, or is refused and takes nothing.
func TestReserve(t *testing.T) {
	for _, test := range []struct {
		name   string
		spec   stint.Spec
		before []uint32 // earlier reservations
		cost   uint32
		within time.Duration
		want   time.Duration
		err    error
	}{
		{"at once", perSecond, nil, 1, 0, 0, nil},
		{"next", perSecond, []uint32{1}, 1, stint.Never, time.Second, nil},
		{"behind three", perSecond, []uint32{1, 1, 1}, 1, 3 * time.Second, 3 * time.Second, nil},
		{"behind three, too late", perSecond, []uint32{1, 1, 1}, 1, 3*time.Second - 1, 3 * time.Second, pace.ErrTooLate},
		{"now or never", perSecond, []uint32{1}, 1, 0, time.Second, pace.ErrTooLate},
		{"more than ever", perSecond, nil, 2, stint.Never, stint.Never, pace.ErrNever},
		{"limit of none", none, nil, 1, stint.Never, stint.Never, pace.ErrNever},
		{"nothing of none", none, nil, 0, 0, 0, nil},
		{"leaky", leaky, []uint32{1}, 1, time.Second, time.Second, nil},
		{"leaky, too late", leaky, []uint32{1}, 1, time.Second - 1, time.Second, pace.ErrTooLate},
		{"leaky, full", leaky, []uint32{1, 1}, 1, stint.Never, time.Second, pace.ErrTooLate},
		{"fixed_window", fixed, nil, 1, 0, 0, pace.ErrNoPromise},
		{"sliding_log", slidingLog, nil, 1, 0, 0, pace.ErrNoPromise},
		{"sliding_window", sliding, nil, 1, 0, 0, pace.ErrNoPromise},
		{"in steps", steps, nil, 1, 0, 0, pace.ErrNoPromise},
		{"overdraw", stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Overdraw: true}, []uint32{1}, 1, stint.Never, time.Second, nil},
		{"unlimited", stint.Spec{Algorithm: stint.Unlimited}, []uint32{9}, 9, 0, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pace.New(bubble(), "k", stint.MustLimit(test.spec))
				for _, cost := range test.before {
					if _, err := p.Reserve(t.Context(), cost, stint.Never); err != nil {
						t.Fatal(err)
					}
				}
				before, _ := p.Peek(t.Context())
				r, err := p.Reserve(t.Context(), test.cost, test.within)
				if !errors.Is(err, test.err) || test.err == nil && err != nil {
					t.Fatalf("got %v, want %v", err, test.err)
				}
				if refused, ok := errors.AsType[*pace.RefusedError](err); ok {
					if refused.Wait != test.want {
						t.Errorf("the refusal names %v, want %v", refused.Wait, test.want)
					}
					if after, _ := p.Peek(t.Context()); after != before {
						t.Errorf("a refusal changed the state from %+v to %+v", before, after)
					}
					return
				}
				if r.Delay() != test.want {
					t.Errorf("delay is %v, want %v", r.Delay(), test.want)
				}
				begun := time.Now()
				if err := r.Wait(t.Context()); err != nil || time.Since(begun) != test.want {
					t.Errorf("waited %v, %v", time.Since(begun), err)
				}
			})
		})
	}
}

// The delay of the next reservation after one is given back.
func TestReservationGivenBack(t *testing.T) {
	bucket := stint.Spec{Algorithm: stint.TokenBucket, Requests: 1, Per: time.Second, Burst: 4}
	for _, test := range []struct {
		name  string
		spec  stint.Spec
		costs []uint32
		back  []int         // indices of those given back, in this order
		at    time.Duration // time of giving back
		want  time.Duration // delay of a further reservation of one unit at that time
	}{
		{"not used", bucket, []uint32{4}, []int{0}, 0, 0},
		{"twice", bucket, []uint32{3, 1, 1}, []int{2, 2, 2}, 0, time.Second},
		{"last in debt", bucket, []uint32{4, 2}, []int{1}, 0, time.Second},
		{"last two in debt, last first", bucket, []uint32{4, 2, 2}, []int{2, 1}, 0, time.Second},
		{"first of two in debt: its time passes", bucket, []uint32{4, 2, 2}, []int{1}, 0, 5 * time.Second},
		{"then the last: all of its own", bucket, []uint32{4, 2, 2}, []int{1, 2}, 0, 3 * time.Second},
		{"nobody in debt", bucket, []uint32{1, 1, 1}, []int{0}, 0, 0},
		{"all due", bucket, []uint32{4, 1, 1}, []int{1}, 3 * time.Second, 0},
		{"refilled since", bucket, []uint32{4}, []int{0}, 10 * time.Second, 0},
		{"leaky, last", leaky, []uint32{1, 1}, []int{1}, 0, time.Second},
		{"leaky, first: its place passes", leaky, []uint32{1, 1}, []int{0}, time.Second, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pace.New(bubble(), "k", stint.MustLimit(test.spec))
				var all []*pace.Reservation
				for _, cost := range test.costs {
					r, err := p.Reserve(t.Context(), cost, stint.Never)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, r)
				}
				time.Sleep(test.at) // fake time
				for _, i := range test.back {
					if err := all[i].GiveBack(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				r, err := p.Reserve(t.Context(), 1, stint.Never)
				if err != nil || r.Delay() != test.want {
					t.Errorf("the next has delay %v, %v; want %v", r.Delay(), err, test.want)
				}
			})
		})
	}
}

// A reservation is given back if the context of its Wait ends.
func TestReservationWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace.New(bubble(), "k", stint.MustLimit(perSecond))
		for _, deadline := range []time.Duration{0, time.Second / 2} {
			if err := p.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			var last *pace.Reservation
			for range 2 {
				last, _ = p.Reserve(t.Context(), 1, stint.Never)
			}
			ctx, cancel := context.WithCancel(within(t, deadline))
			time.AfterFunc(time.Second/4, cancel)
			if err := last.Wait(ctx); err == nil {
				t.Error("waited for nothing")
			}
			r, err := p.Reserve(t.Context(), 1, stint.Never)
			if due := time.Until(time.Now().Add(r.Delay())); err != nil || due > time.Second || last.Decision().Remaining != 0 {
				t.Errorf("the next has delay %v, %v", due, err)
			}
		}
	})
}

// For any order of reservations, returns and takes, the usage respects the limit: in any interval
// at most burst + rate * time.
func TestReservationsKeepTheLimit(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			burst := 1 + random.Uint32N(5)
			p := pace.New(bubble(), "k", stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Second, Burst: burst}))
			type use struct {
				at   time.Time
				cost uint32
				r    *pace.Reservation
			}
			var uses []use
			for range 200 {
				switch random.IntN(4) {
				case 0:
					time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond) // fake time
				case 1:
					cost := 1 + random.Uint32N(burst)
					if d, _ := p.Take(t.Context(), cost); d.Allowed {
						uses = append(uses, use{time.Now(), cost, nil})
					}
				case 2:
					cost := 1 + random.Uint32N(burst)
					if r, err := p.Reserve(t.Context(), cost, 2*time.Second); err == nil {
						uses = append(uses, use{time.Now().Add(r.Delay()), cost, r})
					}
				case 3:
					if i := random.IntN(len(uses) + 1); i < len(uses) && uses[i].r != nil && uses[i].r.Delay() > 0 {
						if err := uses[i].r.GiveBack(t.Context()); err != nil {
							t.Fatal(err)
						}
						uses = slices.Delete(uses, i, i+1)
					}
				}
			}
			slices.SortStableFunc(uses, func(a, b use) int { return a.at.Compare(b.at) })
			if err := conforms(uses, func(u use) (time.Time, uint32) { return u.at, u.cost }, burst); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}

// conforms checks uses in order of time against a bucket of ten per second.
func conforms[T any](uses []T, of func(T) (time.Time, uint32), burst uint32) error {
	level := time.Duration(burst) * 100 * time.Millisecond
	var last time.Time
	for i, u := range uses {
		at, cost := of(u)
		if i > 0 {
			level = min(time.Duration(burst)*100*time.Millisecond, level+at.Sub(last))
		}
		last = at
		if level -= time.Duration(cost) * 100 * time.Millisecond; level < -time.Microsecond {
			return fmt.Errorf("use %d of %d is %v too early", i, cost, -level)
		}
	}
	return nil
}
