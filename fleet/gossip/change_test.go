package gossip_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"stint"
	"stint/fleet/gossip"
	"stint/store/memory"
)

// versions are a rule as it was and as it is.
func versions(was, is stint.Coordination) (before, after *stint.Terms) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Hour, Burst: 1000})
	return &stint.Terms{Domain: "api", Rule: "r", Limit: limit, Coordination: was},
		&stint.Terms{Domain: "api", Rule: "r", Limit: limit, Coordination: is}
}

// When a rule is no longer gossip, the nodes together debit the store with the used units, each
// with those that it took. For a node that has ended, the others do so.
func TestLeave(t *testing.T) {
	for _, test := range []struct {
		name string
		gone bool // the last node
		want []int64
	}{
		{"all there", false, []int64{100, 200, 300}},
		{"one gone", true, []int64{200, 400}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFleet(t, 1, 3)
			before, after := versions(stint.Gossip, stint.Strict)
			for i, n := range f.nodes {
				call := stint.Call{Takes: []stint.Take{{Key: "a", Handling: &stint.Handling{Terms: before, Place: "p"}, Limit: before.Limit, Cost: uint32(100 * (i + 1))}}}
				if err := n.Decide(&call, f.now); err != nil || !call.Results[0].Allowed {
					t.Fatal(call.Results, err)
				}
			}
			f.run(time.Second)
			if test.gone {
				for _, n := range f.nodes[:2] {
					n.RemovePeer(f.nodes[2].ID())
				}
			}
			for i, want := range test.want {
				debits := f.nodes[i].Leave([]*stint.Terms{after}, f.now)
				if len(debits) != 1 || debits[0].Key != "a" || debits[0].Place() != "p" || debits[0].Op != stint.Force {
					t.Fatalf("node %d: %+v", i, debits)
				}
				if got := int64(debits[0].Cost); got < want || got > want+1 {
					t.Errorf("node %d debits %d, want %d or one more", i, got, want)
				}
				if again := f.nodes[i].Leave([]*stint.Terms{after}, f.now); len(again) > 0 {
					t.Errorf("node %d debits it again: %+v", i, again)
				}
			}
		})
	}
}

// take takes units of a key under a version of a rule, and returns the remaining ones.
func take(t *testing.T, s stint.Store, by *stint.Terms, cost uint32) int64 {
	t.Helper()
	call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: by.Limit, Cost: cost, Handling: &stint.Handling{Terms: by}}}}
	if err := s.Decide(t.Context(), &call); err != nil || !call.Results[0].Allowed {
		t.Fatal(call.Results, err)
	}
	return call.Results[0].Remaining
}

// What was used is the same before a rule changes and after, to gossip and back.
func TestChange(t *testing.T) {
	base := gossip.New(nil, gossip.StoreOptions{})
	s := gossip.New(nil, gossip.StoreOptions{Base: base})
	change := func(all ...*stint.Terms) {
		t.Helper()
		done, err := s.Change(t.Context(), all)
		if done(); err != nil {
			t.Fatal(err)
		}
	}
	strict, told := versions(stint.Strict, stint.Gossip)
	change(strict)
	take(t, base, strict, 300)
	change(told)
	if left := take(t, s, told, 100); left != 600 {
		t.Errorf("%d are left after 300 were used before and 100 now", left)
	}
	if left := take(t, s, told, 100); left != 500 {
		t.Errorf("%d are left: the store was counted twice", left)
	}
	change(strict)
	if left := take(t, base, strict, 0); left > 500 || left < 498 {
		t.Errorf("%d are left where the rule is strict again", left)
	}
}

// slow is a store whose answers take a while.
type slow struct {
	stint.Store
	answered *time.Time // the last
}

func (s slow) Decide(ctx context.Context, call *stint.Call) error {
	err := s.Store.Decide(ctx, call)
	time.Sleep(100 * time.Millisecond) // the way of the answer, in which tokens come back
	*s.answered = time.Now()
	return err
}

// The used units in the store's answer count from the time of the answer: nothing is refilled for
// the time that it travelled.
func TestChangeSlow(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second, Burst: 1000})
	strict := &stint.Terms{Domain: "api", Rule: "r", Limit: limit, Coordination: stint.Strict}
	told := &stint.Terms{Domain: "api", Rule: "r", Limit: limit, Coordination: stint.Gossip}
	now, answered := stint.At(time.Now()), time.Time{}
	base := memory.New(memory.Options{Clock: func() stint.Instant { return now }})
	s := gossip.New(nil, gossip.StoreOptions{Base: slow{base, &answered}})
	for _, v := range []*stint.Terms{strict, told} {
		done, err := s.Change(t.Context(), []*stint.Terms{v})
		if done(); err != nil {
			t.Fatal(err)
		}
	}
	take(t, base, strict, 1000)
	left := take(t, s, told, 0)
	if since := time.Since(answered); left > since.Milliseconds()+1 {
		t.Errorf("%d are left, %v after all were used", left, since)
	}
}

// silent is a store that answers nothing but looks.
type silent struct{ stint.Store }

func (s silent) Decide(ctx context.Context, call *stint.Call) error {
	if call.Takes[0].Op == stint.Force {
		return errors.New("no answer")
	}
	return s.Store.Decide(ctx, call)
}

// While rules change, takes wait; a store that does not answer is told of, and changes
// nothing else.
func TestChangeAway(t *testing.T) {
	base := gossip.New(nil, gossip.StoreOptions{})
	s := gossip.New(nil, gossip.StoreOptions{Base: silent{base}})
	strict, told := versions(stint.Strict, stint.Gossip)
	for _, v := range []*stint.Terms{strict, told} {
		if done, err := s.Change(t.Context(), []*stint.Terms{v}); err != nil {
			t.Fatal(err)
		} else {
			done()
		}
	}
	take(t, s, told, 10)
	done, err := s.Change(t.Context(), []*stint.Terms{strict})
	if !errors.Is(err, gossip.ErrNotDebited) {
		t.Errorf("error %v", err)
	}
	decided := make(chan int64)
	go func() { decided <- take(t, s, told, 10) }()
	select {
	case <-decided:
		t.Error("a take did not wait")
	default:
	}
	done()
	<-decided
}
