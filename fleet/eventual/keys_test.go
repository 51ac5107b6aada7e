package eventual_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/fleet/eventual"
	"stint/internal/testkit"
	"stint/store/memory"
)

// One node answers whatever it is asked as the store itself would: several takes, refunds,
// forced takes, resets.
func TestLikeOneStore(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			f := start(t, 1, eventual.Options{Interval: time.Duration(1+r.IntN(200)) * time.Millisecond})
			want := memory.New(memory.Options{})
			limits := []*stint.Limit{fast, window, stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: time.Second})}
			last := map[stint.Key]stint.Decision{}
			for step := range 400 {
				pass(time.Duration(r.IntN(60)) * time.Millisecond)
				var takes []stint.Take
				for range 1 + r.IntN(3) {
					i := r.IntN(len(limits))
					one := take(stint.Key(fmt.Sprint("key", i)), limits[i], uint32(r.IntN(4)*r.IntN(100)))

					if i == 2 {
						one.Independent, one.Key = true, "apart"
					}
					takes = append(takes, one)
				}
				if d, known := last[takes[0].Key]; len(takes) == 1 && r.IntN(4) == 0 {
					takes[0].Op = []stint.Op{stint.Force, stint.Refund, stint.Refund}[r.IntN(3)]
					if takes[0].Limit != window { // of a bucket whole units are given back
						takes[0].Op = stint.Force
					}
					if takes[0].Op == stint.Refund && known && r.IntN(2) == 0 {
						takes[0].Undo = &d
					}
					takes[0].Cost = uint32(r.IntN(20))
				}
				got := f.Decide(t, 0, takes...)
				wanted := testkit.Decide(t, want, takes...)
				for i := range got {
					if got[i] != wanted[i] {
						t.Fatalf("step %d, take %d of %+v:\n%+v, want\n%+v", step, i, takes, got[i], wanted[i])
					}
					if takes[i].Op == stint.Ask && got[i].Allowed && len(takes) == 1 {
						last[takes[i].Key] = got[i]
					}
				}
			}
		})
	}
}

// A burst that is small beside what comes in during an interval costs nobody anything.
func TestSmallBurst(t *testing.T) {
	small := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10_000, Per: time.Second, Burst: 10})
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 4, eventual.Options{})
		denied := 0
		for range 4000 { // 2,000 a second, of 10,000
			pass(500 * time.Microsecond)
			for node := range 1 {
				if !f.Decide(t, node, take("a", small, 1))[0].Allowed {
					denied++
				}
			}
		}
		if denied > 0 {
			t.Errorf("%d of 4000 are denied", denied)
		}
	})
}

// What was taken in a window is charged to that, also if it is told after its end.
func TestOverTheEdge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 2, eventual.Options{Interval: 70 * time.Millisecond})
		pass(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 10*time.Millisecond)))
		for range 5 {
			for node := range 2 { // 250 of 1,000 in the last 70 ms of each window
				f.Decide(t, node, take("a", window, 300))
			}
			pass(980 * time.Millisecond)
			for node := range 2 {
				if d := f.Decide(t, node, take("a", window, 200))[0]; !d.Allowed {
					t.Fatalf("%+v, though all have 1,000 together", d)
				}
			}
			pass(20 * time.Millisecond)
		}
		pass(200 * time.Millisecond)
		if d := f.Stored(t, "a", window); d.Debt > 0 {
			t.Errorf("%+v", d)
		}
	})
}

// A reset at the store is heard of, and one through a node is known at once.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 2, eventual.Options{})
		for node := range 2 {
			f.Decide(t, node, take("a", thousand, 500))
		}
		pass(200 * time.Millisecond)
		if d := f.Decide(t, 0, take("a", thousand, 1))[0]; d.Allowed {
			t.Fatalf("%+v", d)
		}
		reset := take("a", thousand, 0)
		reset.Op = stint.Reset
		f.Decide(t, 0, reset)
		if d := f.Decide(t, 0, take("a", thousand, 1))[0]; !d.Allowed {
			t.Errorf("%+v, where it was reset", d)
		}
		f.Decide(t, 1, take("a", thousand, 1))
		pass(200 * time.Millisecond)
		if d := f.Decide(t, 1, take("a", thousand, 1))[0]; !d.Allowed {
			t.Errorf("%+v, on the other node", d)
		}
	})
}

// Who is over the limit keeps its place while others come and go, and so does who is asked
// for; nobody goes of whom the store has not been told all.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		terms := &stint.Terms{Rule: "user", Keys: 10, Coordination: stint.Eventual}
		ask := func(key string, cost uint32) stint.Decision {
			one := take(stint.Key(key), thousand, cost)
			one.Handling = &stint.Handling{Terms: terms}
			return f.Decide(t, 0, one)[0]
		}
		ask("over", 1000)
		ask("busy", 1)
		for i := range 500 {
			ask("busy", 1)
			ask(fmt.Sprint("other", i), 1)
			pass(time.Millisecond)
			if i%10 == 9 {
				pass(150 * time.Millisecond)
			}
		}
		stats := f.Nodes[0].Stats()
		if stats.Keys > 10 || stats.Evicted < 400 {
			t.Errorf("%+v", stats)
		}
		before := f.Store.Calls.Load()
		if ask("over", 1).Allowed || !ask("busy", 1).Allowed {
			t.Error("wrong answers")
		}
		if n := f.Store.Calls.Load() - before; n != 0 {
			t.Errorf("the store was asked %d times for who should be there", n)
		}
		pass(200 * time.Millisecond)
		if d := f.Stored(t, "busy", thousand); d.Remaining != 1000-502 {
			t.Errorf("%d are left of 1000, want %d", d.Remaining, 1000-502)
		}
		for i := range 500 {
			if d := f.Stored(t, stint.Key(fmt.Sprint("other", i)), thousand); d.Remaining != 999 {
				t.Errorf("%d are left of other %d", d.Remaining, i)
			}
		}
	})
}

// Memory bounds all keys where no rule does, and keys that are as if never touched go.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{Budget: 64 << 10})
		for i := range 5000 {
			f.Decide(t, 0, take(stint.Key(fmt.Sprint("user", i)), fast, 1))
			pass(200 * time.Microsecond)
		}
		if s := f.Nodes[0].Stats(); s.Bytes > 64<<10 || s.Keys < 100 {
			t.Errorf("%+v", s)
		}
		pass(time.Minute)
		if s := f.Nodes[0].Stats(); s.Keys != 0 || s.Bytes != 0 {
			t.Errorf("%+v, after a minute of nothing", s)
		}
	})
}

// What is decided here allocates nothing.
func TestAllocations(t *testing.T) {
	s := eventual.New(memory.New(memory.Options{}), eventual.Options{})
	for name, takes := range map[string][]stint.Take{
		"what passes": {take("a", fast, 1)},
		"a refusal":   {take("b", thousand, 1000)},
		"a look":      {take("a", fast, 0)},
		"several":     {take("a", fast, 1), take("c", window, 0)},
		"in a window": {take("c", window, 1)},
	} {
		call := stint.Call{Takes: takes}
		ask := func() {
			if err := s.Decide(t.Context(), &call); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		if n := testing.AllocsPerRun(50, ask); n != 0 && !testkit.Race {
			t.Errorf("%v allocations for %s", n, name)
		}
	}
}
