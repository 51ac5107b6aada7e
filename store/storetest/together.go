package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"stint"
	"stint/store/storetest/model"
)

// together: a call of several takes charges all or none, whichever denies and in whatever order;
// takes that would have passed return their unchanged state; takes of one key are added up.
func together(t *testing.T, o Options) {
	limits := model.Variants(10)
	for at := range limits {
		t.Run("denied by "+model.Name(limits[at]), func(t *testing.T) {
			s := start(t, o)
			takes := spend(s, limits, at)
			before := s.peeks(takes)
			for range 3 {
				rand.Shuffle(len(takes), func(i, j int) { takes[i], takes[j] = takes[j], takes[i] })
				for i, d := range s.decide(noon, takes...) {
					denies := takes[i].Limit == limits[at]
					if d.Allowed == denies || !denies && d != before[takes[i].Key] {
						t.Fatalf("%s: %+v, before %+v", takes[i].Key, d, before[takes[i].Key])
					}
				}
				for key, d := range s.peeks(takes) {
					if d != before[key] {
						t.Fatalf("%s was changed by a call that was denied:\nbefore %+v\nafter  %+v", key, before[key], d)
					}
				}
			}
		})
	}
	t.Run("all pass", func(t *testing.T) {
		s := start(t, o)
		takes := spend(s, limits, -1)
		before := s.peeks(takes)
		for i, d := range s.decide(noon, takes...) {
			if want := before[takes[i].Key].Remaining - int64(takes[i].Cost); !d.Allowed || d.Remaining != want {
				t.Fatalf("%s: %+v, want %d remaining", takes[i].Key, d, want)
			}
		}
	})
	eachVariant(t, o, 10, duplicates)
}

// spend takes a few units of each limit, all units of the limit with the index empty, and returns a
// take of 3 of each.
func spend(s tester, limits []*stint.Limit, empty int) []stint.Take {
	var takes []stint.Take
	for i, limit := range limits {
		key := stint.Key(fmt.Sprint("key", i))
		cost := uint32(i % 7)
		if i == empty {
			cost = 8
		}
		s.take(noon, key, limit, cost)
		takes = append(takes, stint.Take{Key: key, Limit: limit, Cost: 3})
	}
	return takes
}

// peeks peeks at the keys of takes, one by one.
func (s tester) peeks(takes []stint.Take) map[stint.Key]stint.Decision {
	s.Helper()
	seen := map[stint.Key]stint.Decision{}
	for _, take := range takes {
		seen[take.Key] = s.peek(noon, take.Key, take.Limit)
	}
	return seen
}

// duplicates: takes of one key in one call are one take of the sum.
func duplicates(s tester, limit *stint.Limit) {
	s.Helper()
	one := stint.Take{Key: "a", Limit: limit, Cost: 2}
	other := stint.Take{Key: "b", Limit: limit, Cost: 1}
	for i, d := range s.decide(noon, one, other, one, one) {
		if want := []int64{4, 9, 4, 4}[i]; !d.Allowed || d.Remaining != want {
			s.Fatalf("take %d: %+v, want %d remaining", i, d, want)
		}
	}
	for i, d := range s.decide(noon, one, one, other, one) { // 6, and there are 4
		if d.Allowed != (i == 2) || d.Remaining != []int64{4, 4, 9, 4}[i] {
			s.Fatalf("take %d: %+v", i, d)
		}
	}
	single := s.take(noon, "a", limit, 6)
	if d := s.decide(noon, one, one, one)[0]; d != single {
		s.Fatalf("three takes of 2 get %+v, one of 6 %+v", d, single)
	}
	six := slices.Repeat([]stint.Take{one}, 6) // 12, more than the limit holds
	if d := s.decide(noon, six...)[0]; d.Allowed || d.RetryAfter != stint.Never {
		s.Fatalf("six takes of 2: %+v", d)
	}
}

// togetherRandom: calls of random overlapping keys by 8 goroutines never wait for each other in a
// circle, and in the end each key was charged exactly what passed.
func togetherRandom(t *testing.T, o Options) {
	calls := 400
	if o.Slow {
		calls /= 10
	}
	s, seed := start(t, o), random(t).Uint64()
	limits := model.Variants(300)
	const keys = 23
	limit := func(k int) *stint.Limit { return limits[k%len(limits)] }
	key := func(k int) stint.Key { return stint.Key(fmt.Sprint("key", k)) }
	var charged [keys]atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(g)))
			call := stint.Call{At: noon}
			var asked []int
			for range calls {
				call.Takes, asked = call.Takes[:0], asked[:0]
				for range 1 + r.IntN(6) {
					k := r.IntN(keys)
					asked = append(asked, k)
					call.Takes = append(call.Takes, stint.Take{Key: key(k), Limit: limit(k), Cost: uint32(r.IntN(4))})
				}
				if err := s.Decide(context.Background(), &call); err != nil {
					s.Error(err)
					return
				}
				if d, _ := stint.Combine(call.Results); !d.Allowed {
					continue
				}
				for i, k := range asked {
					charged[k].Add(int64(call.Takes[i].Cost))
				}
			}
		})
	}
	wg.Wait()
	for k := range keys {
		d := s.peek(noon, key(k), limit(k))
		unused := d.Limit - d.Remaining - charged[k].Load()
		if unused != 0 && (unused < 0 || !o.Scattered || limit(k).Algorithm() != stint.LeakyBucket) {
			t.Errorf("%s: %d used, and calls that passed took %d", key(k), d.Limit-d.Remaining, charged[k].Load())
		}
	}
}

// snapshot: a call sees several keys at one moment. Two that are always charged together are always
// equal, and denials are stable; for scattered keys that holds once all calls are done.
func snapshot(t *testing.T, o Options) {
	times := 500
	if o.Slow {
		times /= 10
	}
	limits := model.Variants(1_000_000)
	for i, limit := range limits {
		other := limits[(i+1)%len(limits)]
		t.Run(model.Name(limit)+" and "+model.Name(other), func(t *testing.T) {
			s := start(t, o)
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					call := stint.Call{At: noon, Takes: []stint.Take{{Key: "x", Limit: limit, Cost: 1}, {Key: "y", Limit: other, Cost: 1}}}
					if g%2 == 1 {
						slices.Reverse(call.Takes)
					}
					if g > 1 {
						call.Takes[0].Cost, call.Takes[1].Cost = 0, 0
					}
					for range times {
						if err := s.Decide(context.Background(), &call); err != nil {
							s.Error(err)
							return
						}
						if a, b := call.Results[0], call.Results[1]; a.Remaining != b.Remaining && !o.Scattered {
							s.Errorf("two keys that are charged as one have %d and %d left", a.Remaining, b.Remaining)
							return
						}
					}
				})
			}
			wg.Wait()
			if x, y := s.peek(noon, "x", limit), s.peek(noon, "y", other); x.Remaining != y.Remaining {
				s.Errorf("in the end two keys that were charged as one have %d and %d left", x.Remaining, y.Remaining)
			}
		})
	}
}

// apart: an Independent take is charged if it alone may pass, and does not deny the others; nor do
// they deny it.
func apart(t *testing.T, o Options) {
	eachVariant(t, o, 10, func(s tester, limit *stint.Limit) {
		ask := func(main, shadow uint32) (stint.Decision, stint.Decision) {
			r := s.decide(noon, stint.Take{Key: "shadow", Limit: limit, Cost: shadow, Independent: true}, stint.Take{Key: "main", Limit: limit, Cost: main})
			return r[1], r[0]
		}
		for i, step := range []struct {
			main, shadow         uint32
			passMain, passShadow bool
			leftMain, leftShadow int64
		}{
			{1, 9, true, true, 9, 1},
			{1, 2, true, false, 8, 1}, // the Independent take denies only itself
			{9, 1, false, true, 8, 0}, // and is charged even if the call is denied
			{9, 1, false, false, 8, 0},
			{8, 0, true, true, 0, 0},
		} {
			a, b := ask(step.main, step.shadow)
			if a.Allowed != step.passMain || a.Remaining != step.leftMain || b.Allowed != step.passShadow || b.Remaining != step.leftShadow {
				s.Fatalf("step %d: main %+v, shadow %+v", i, a, b)
			}
		}
	})
	t.Run("all apart", func(t *testing.T) {
		s, limit := start(t, o), model.Variants(10)[0]
		take := stint.Take{Key: "a", Limit: limit, Cost: 4, Independent: true}
		for i, d := range s.decide(noon, take, take, take) { // each by itself, one after another
			if d.Allowed != (i < 2) || d.Remaining != []int64{6, 2, 2}[i] {
				t.Fatalf("take %d: %+v", i, d)
			}
		}
	})
}
