package pace_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/pace"
	"stint/store/memory"
)

// TestProbe checks that one of five callers passes at the end of a pause, and of a used-up budget.
// The others wait for the result, or for the given time.
func TestProbe(t *testing.T) {
	for _, test := range []struct {
		name string
		hold func(p *pace.Pacer)
		word func(p *pace.Pacer) // called after 10 s
		want []int               // in seconds
	}{
		{"pause", func(p *pace.Pacer) { p.Pause(5 * time.Second) }, func(*pace.Pacer) {}, []int{5, 65, 65, 65, 65}},
		{"pause, then a budget", func(p *pace.Pacer) { p.Pause(5 * time.Second) }, func(p *pace.Pacer) { p.Budget(3, 7*time.Second) }, []int{5, 10, 10, 17, 77}},
		{"pause, then a pause", func(p *pace.Pacer) { p.Pause(5 * time.Second) }, func(p *pace.Pacer) { p.Pause(time.Second) }, []int{5, 11, 71, 71, 71}},
		{"budget, used up", func(p *pace.Pacer) { p.Budget(2, 5*time.Second) }, func(*pace.Pacer) {}, []int{0, 0, 5, 65, 65}},
		{"budget, enough", func(p *pace.Pacer) { p.Budget(6, 5*time.Second) }, func(*pace.Pacer) {}, []int{0, 0, 0, 0, 0}},
		{"pause under a budget", func(p *pace.Pacer) { p.Budget(4, time.Hour); p.Pause(5 * time.Second) }, func(*pace.Pacer) {}, []int{5, 65, 65, 65, 65}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pace.New(memory.New(memory.Options{}), "k", stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited}))
				p.Probe(time.Minute)
				begun := time.Now()
				test.hold(p)
				time.AfterFunc(10*time.Second, func() { test.word(p) })
				var mu sync.Mutex
				var at []int
				var group sync.WaitGroup
				for range 5 {
					group.Go(func() {
						if err := p.Wait(t.Context(), 1); err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						at = append(at, int(time.Since(begun)/time.Second))
					})
				}
				group.Wait()
				for i := range test.want {
					if at[i] != test.want[i] {
						t.Fatalf("passed at %v s, want %v", at, test.want)
					}
				}
			})
		})
	}
}
