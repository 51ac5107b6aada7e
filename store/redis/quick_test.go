package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/store/storetest/model"
)

// quickCall returns a random call of steady buckets; one.lua, few.lua and quick.lua decide most of
// them.
func quickCall(r *rand.Rand, limits []*stint.Limit) stint.Call {
	var call stint.Call
	for range []int{1, 1, 1, 2, 3, 5}[r.IntN(6)] {
		t := stint.Take{
			Key: stint.Key(fmt.Sprint("key", r.IntN(4))), Limit: limits[r.IntN(len(limits))],
			Cost: []uint32{0, 1, 1, 1, 2, 5, uint32(r.IntN(20)), stint.MaxCost}[r.IntN(8)], Independent: len(limits) == 1 && r.IntN(6) == 0, // with several, another script may decide some a moment later
		}
		if t.Independent {
			t.Key = "apart"
		}
		if r.IntN(30) == 0 {
			t.Op = []stint.Op{stint.Refund, stint.Reset, stint.Force}[r.IntN(min(3, 1+len(limits)))] // another script decides debts too
		}
		call.Takes = append(call.Takes, t)
	}
	return call
}

// quick.lua decides at the server's own time as the model does at the time of the decisions.
func TestQuickDifferential(t *testing.T) {
	server := testkit.StartRedis(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	histories := 40
	if testing.Short() {
		histories = 10
	}
	for range histories {
		s, model := open(t, server), new(model.Store)
		var limits []*stint.Limit
		for range 1 + r.IntN(3) {
			spec := stint.Spec{
				Algorithm: stint.TokenBucket, Requests: []uint32{1, 5, 1000}[r.IntN(3)],
				Per: []time.Duration{10 * time.Millisecond, time.Second, time.Hour}[r.IntN(3)], Burst: []uint32{1, 3, 10}[r.IntN(3)],
			}
			if r.IntN(3) == 0 {
				spec.Algorithm, spec.MaxWait = stint.LeakyBucket, []time.Duration{0, time.Millisecond, time.Second, 20 * time.Minute}[r.IntN(4)]
			}
			limits = append(limits, stint.MustLimit(spec))
		}
		for step := range 200 {
			call := quickCall(r, limits)
			err := s.Decide(t.Context(), &call)
			want := stint.Call{At: 1, Takes: call.Takes}
			if err == nil {
				want.At = call.Results[0].At
			}
			wantErr := model.Decide(t.Context(), &want)
			if (err == nil) != (wantErr == nil) || err == nil && !sameTime(call.Results) {
				t.Fatalf("step %d: %v, want %v; %+v", step, err, wantErr, call.Results)
			}
			if err == nil && !reflect.DeepEqual(call.Results, want.Results) {
				t.Fatalf("step %d: %+v\n got %+v\nwant %+v", step, call.Takes, call.Results, want.Results)
			}
		}
	}
}

// sameTime reports whether a call was decided at one moment.
func sameTime(results []stint.Decision) bool {
	for i := range results {
		if results[i].At != results[0].At {
			return false
		}
	}
	return true
}

// With many callers at once each call stays all or none, exactly the limit passes, and callers that
// give up do not affect others.
func TestCommitTogether(t *testing.T) {
	server := testkit.StartRedis(t)
	s := open(t, server)
	hot := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: 24 * time.Hour})
	wide := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 700, Per: 24 * time.Hour})
	other := stint.MustLimit(stint.Spec{Requests: 1_000_000, Per: 24 * time.Hour, FromFirst: true})
	var one, both, gaveUp atomic.Int64
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for i := range 60 {
				ctx, cancel := context.WithCancel(t.Context())
				call := stint.Call{Takes: []stint.Take{{Key: "hot", Limit: hot, Cost: 1}}}
				switch {
				case g%8 == 0: // gives up at once, or while it waits
					if i%2 == 0 {
						cancel()
					} else {
						go cancel()
					}
					call.Takes[0].Key = "given up"
				case g%8 == 1: // decide.lua decides it
					call.Takes[0] = stint.Take{Key: "window", Limit: other, Cost: 1}
				case g%8 == 2: // longer than a group
					call.Takes[0].Key = stint.Key(fmt.Sprint("own", g))
					for n := range 200 {
						call.Takes = append(call.Takes, stint.Take{Key: stint.Key(fmt.Sprint("wide", n)), Limit: hot, Cost: 0})
					}
				case g%2 == 1:
					call.Takes = append(call.Takes, stint.Take{Key: "both", Limit: wide, Cost: 1})
				}
				err := s.Decide(ctx, &call)
				cancel()
				switch {
				case g%8 == 0:
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					gaveUp.Add(1)
				case err != nil:
					t.Error(err)
				case len(call.Results) == 2 && call.Results[0].Allowed && call.Results[1].Allowed:
					both.Add(1)
				case len(call.Results) == 1 && g%8 > 2 && call.Results[0].Allowed:
					one.Add(1)
				}
			}
		})
	}
	all.Wait()
	if one.Load()+both.Load() != 1000 || both.Load() > 700 {
		t.Errorf("%d alone and %d with another passed, want 1000 together", one.Load(), both.Load())
	}
	if d := take(t, s, "both", wide, 0); 700-d.Remaining != both.Load() {
		t.Errorf("%d passed, and %d were charged", both.Load(), 700-d.Remaining)
	}
	if d := take(t, s, "window", other, 0); d.Limit-d.Remaining != 8*60 {
		t.Errorf("%d charged in the window, want %d", d.Limit-d.Remaining, 8*60)
	}
	if d := take(t, s, "given up", hot, 0); d.Limit-d.Remaining > gaveUp.Load() {
		t.Errorf("%d of %d who gave up were charged", d.Limit-d.Remaining, gaveUp.Load())
	}
}

// A call that waits for calls without an answer fails with nothing charged, and its slot becomes
// free.
func TestNobodyWaitsForTheFrozen(t *testing.T) {
	server := testkit.StartRedis(t)
	s := open(t, server)
	take(t, s, "a", forms[0], 1)
	s.NearForTest() // on a far server nobody waits for others
	server.Freeze()
	var all sync.WaitGroup
	var unknown atomic.Int64
	ask := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := attempt(ctx, s, "a")
		if errors.Is(err, stint.ErrUnknown) {
			unknown.Add(1)
		}
		return err
	}
	all.Go(func() { _ = ask(time.Minute) }) // waits until the server runs again, in any group
	testkit.Until(t, "it is on its way", func() bool { return s.InFlightForTest() > 0 })
	unasked := 0
	for range 100 {
		err := ask(10 * time.Millisecond)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a frozen server: %v", err)
		}
		if !errors.Is(err, stint.ErrUnknown) {
			unasked++
		}
	}
	server.Thaw()
	all.Wait()
	if unasked < 90 {
		t.Errorf("%d of 100 were not asked, want all but those that came first", unasked)
	}
	if d := untilDecided(t, s); 100-d.Remaining > 3+unknown.Load() {
		t.Errorf("%+v, %d unknown", d, unknown.Load())
	}
}

// TestRenumbered: takes of one key in different groups, under limits of different numbers, are
// decided one after the other.
func TestRenumbered(t *testing.T) {
	s, model := open(t, testkit.StartRedis(t)), new(model.Store)
	six := stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 2, Per: time.Hour, Burst: 5})
	two := stint.MustLimit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: 10 * time.Millisecond, Burst: 1})
	call := stint.Call{At: stint.At(time.Date(2026, 3, 1, 12, 0, 7, 0, time.UTC)), Takes: []stint.Take{
		{Key: "a", Limit: six, Cost: 5, Independent: true}, {Key: "a", Limit: two, Cost: 2, Independent: true}, {Key: "a", Limit: six, Independent: true},
	}}
	want := call
	if err := errors.Join(s.Decide(t.Context(), &call), model.Decide(t.Context(), &want)); err != nil {
		t.Fatal(err)
	}
	for i, d := range call.Results {
		if d != want.Results[i] {
			t.Errorf("take %d: %+v, want %+v", i, d, want.Results[i])
		}
	}
}
