package denycache

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stint"
)

// tried returns a candidate of take number of of a call; below 0: one that depends on no other take.
func tried(key stint.Key, requests uint32, of int) stint.Take {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: requests, Per: time.Minute})
	return stint.Take{Key: key, Limit: limit, Cost: 1, Independent: true, Handling: &stint.Handling{Candidate: true, InsteadOf: uint32(of + 1)}}
}

func limited(key stint.Key, requests uint32) stint.Take {
	t := tried(key, requests, -1)
	t.Independent, t.Handling = false, nil
	return t
}

// A cached denial is not answered while the candidate of its limit has room, which the store must charge.
// When the candidate denies too, both are.
func TestCandidateOfACachedDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		for i, want := range []struct {
			limit, candidate bool
			asked            int64
		}{{true, true, 1}, {false, true, 1}, {false, true, 1}, {false, false, 1}, {false, false, 0}} {
			got, asked := n.ask(limited("l", 1), tried("c", 3, -1))
			if got[0].Allowed != want.limit || got[1].Allowed != want.candidate || asked != want.asked {
				t.Errorf("step %d: %v and %v, asked %d; want %+v", i, got[0].Allowed, got[1].Allowed, asked, want)
			}
		}
	})
}

// A candidate that another limit keeps from being charged is answered from the cache with that limit.
func TestCandidateBesideACachedDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		n.ask(limited("other", 1))
		for i, want := range []int64{1, 0, 0} {
			got, asked := n.ask(limited("l", 5), limited("other", 1), tried("c", 3, 0))
			if got[1].Allowed || !got[2].Allowed || got[2].Remaining != 3 || asked != want {
				t.Errorf("step %d: %+v, asked %d, want %d", i, got, asked, want)
			}
		}
		if got, _ := n.ask(limited("l", 5), limited("fresh", 5), tried("c", 3, 0)); got[2].Remaining != 2 {
			t.Errorf("after that %d remain, want 2", got[2].Remaining)
		}
		// Where its own limit denies, it is charged.
		n.ask(limited("mine", 1))
		for i, want := range []int64{1, 0} {
			if got, asked := n.ask(limited("mine", 1), limited("fresh", 5), tried("c", 3, 0)); got[0].Allowed || got[2].Remaining != want || asked != 1 {
				t.Errorf("its own denial %d: %+v, asked %d", i, got, asked)
			}
		}
	})
}

// No request waits for the answer about a candidate.
func TestCandidateLetsNobodyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, Options{})
		for range 2 { // the candidate denies the second
			n.ask(limited("l", 100), tried("c", 1, -1))
		}
		time.Sleep(time.Minute) // its retry time
		n.shared.takes = time.Second
		began := time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { n.ask(limited("l", 100), tried("c", 1, -1)) })
		}
		all.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("five requests took %v, the store a second", took)
		}
	})
}
