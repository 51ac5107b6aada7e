package quota_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/fleet/quota"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/memory"
)

// TestUndecodable: where the store cannot read some state, what was charged to a part stands or is
// given back with what it was decided as one with, and the error names takes as the call does.
func TestUndecodable(t *testing.T) {
	rule := divided(10)
	apart := func(t stint.Take) stint.Take { t.Independent = true; return t }
	other := func(key stint.Key) stint.Take {
		return stint.Take{Key: key, Limit: stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour}), Cost: 1}
	}
	own := ask(rule, "own", 2)
	for _, test := range []struct {
		name        string
		takes       []stint.Take
		undecodable []int
		part        int64 // the rest of the share
		left        int64 // of the key "good"
	}{
		{"all can be read", []stint.Take{own, other("good")}, nil, 8, 9},
		{"decided as one", []stint.Take{own, other("good"), other("bad")}, []int{2}, 10, 10},
		{"of a rule that is divided", []stint.Take{own, other("good"), ask(rule, "bad", 20)}, []int{2}, 10, 10},
		{"what is charged here is apart", []stint.Take{apart(own), other("bad"), other("good")}, []int{1}, 8, 10},
		{"what cannot be read is apart", []stint.Take{own, apart(other("bad")), other("good"), apart(other("bad"))}, []int{1, 3}, 8, 9},
		{"something else is apart", []stint.Take{own, other("bad"), apart(other("good"))}, []int{1}, 10, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := began
			clock := func() stint.Instant { return now }
			server := &testkit.UndecodableStore{
				Store: memory.New(memory.Options{Clock: clock}),
				Bad:   func(key stint.Key) bool { return strings.HasPrefix(string(key), "bad") },
			}
			s := quota.New(server, quota.Options{Clock: clock})
			if err := s.Change(context.Background(), []*stint.Terms{rule}); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Minute)
			call := stint.Call{Takes: test.takes}
			undecodable := transaction.Undecodable(s.Decide(context.Background(), &call))
			if (undecodable != nil) != (test.undecodable != nil) || undecodable != nil && !slices.Equal(undecodable.Takes, test.undecodable) {
				t.Errorf("%v, want %d", undecodable, test.undecodable)
			}
			if p, _ := s.Share(&own); p.Remaining != test.part {
				t.Errorf("%d are left of the part, want %d", p.Remaining, test.part)
			}
			look := stint.Call{Takes: []stint.Take{other("good")}}
			look.Takes[0].Cost = 0
			if err := server.Decide(context.Background(), &look); err != nil || look.Results[0].Remaining != test.left {
				t.Errorf("%+v, %v, want that %d are left", look.Results, err, test.left)
			}
			for i := range call.Takes {
				if transaction.Decided(&call, undecodable, i) && call.Results[i].Limit < 10 {
					t.Errorf("take %d: %+v", i, call.Results[i])
				}
			}
		})
	}
}

// The store is told of all keys but those whose states it cannot read, also without a guard.
func TestChangeUnreadAlone(t *testing.T) {
	now := began
	clock := func() stint.Instant { return now }
	server := &testkit.UndecodableStore{
		Store: memory.New(memory.Options{Clock: clock}),
		Bad:   func(key stint.Key) bool { return strings.HasPrefix(string(key), "bad") },
	}
	s := quota.New(server, quota.Options{Clock: clock})
	change := func(all ...*stint.Terms) error { return s.Change(context.Background(), all) }
	if err := change(divided(10)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	keys := []stint.Key{"bad1", "bad2", "c", "d"}
	for _, key := range keys {
		if err := s.Decide(context.Background(), &stint.Call{Takes: []stint.Take{ask(divided(10), key, 4)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := change(undivided()); err == nil || !strings.Contains(err.Error(), " 2;") {
		t.Errorf("%v, want two keys not debited", err)
	}
	for _, key := range keys[2:] {
		call := stint.Call{Takes: []stint.Take{ask(undivided(), key, 0)}}
		if err := s.Decide(context.Background(), &call); err != nil || call.Results[0].Remaining != 96 {
			t.Errorf("%s: %+v, %v", key, call.Results, err)
		}
	}
}
