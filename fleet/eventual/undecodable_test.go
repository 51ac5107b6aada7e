package eventual_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/fleet/eventual"
	"stint/internal/testkit"
)

// garbled is a store that cannot decode the states of keys with its prefix.
type garbled struct {
	stint.Store
	bad  atomic.Pointer[string]
	lost atomic.Bool              // answers are
	seen func(takes []stint.Take) // is shown what it is asked; nil: nobody
}

func (g *garbled) set(bad string) { g.bad.Store(&bad) }

// Decide is part of stint.Store.
func (g *garbled) Decide(ctx context.Context, call *stint.Call) error {
	undecodable := &stint.CorruptState{}
	if g.seen != nil {
		g.seen(call.Takes)
	}
	for i := range call.Takes {
		if bad := *g.bad.Load(); bad != "" && strings.HasPrefix(string(call.Takes[i].Key), bad) {
			undecodable.Takes = append(undecodable.Takes, i)
		}
	}
	if undecodable.Takes != nil {
		return fmt.Errorf("garbled: %w", undecodable)
	}
	err := g.Store.Decide(ctx, call)
	if g.lost.Load() {
		return errors.New("lost")
	}
	return err
}

// TestUndecodable: what the store cannot read keeps no other key from being told, and everything is
// told once when it can be read again.
func TestUndecodable(t *testing.T) {
	for _, test := range []struct {
		name string
		bad  string // keys begin with
		told bool   // before, without an answer
	}{
		{"one key", "key7", false},
		{"several", "key1", false},
		{"all of them", "key", false},
		{"receipts", "eventual/", false},
		{"one key that was told", "key7", true},
		{"several that were told", "key1", true},
		{"all of them, that were told", "key", true},
	} {
		for _, limit := range []*stint.Limit{thousand, window} {
			t.Run(test.name+", "+limit.Algorithm().String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { undecodable(t, test.bad, test.told, limit) })
			})
		}
	}
}

func undecodable(t *testing.T, bad string, told bool, limit *stint.Limit) {
	const keys = 100
	if limit == window {
		limit = stint.MustLimit(stint.Spec{Requests: 1000, Per: stint.MaxPer, CarryDebt: true})
	}
	f := start(t, 1, eventual.Options{})
	server := &garbled{Store: f.Store.Store}
	server.set("")
	f.Store.Store = server
	key := func(i int) stint.Key { return stint.Key(fmt.Sprint("key", i)) }
	take := func(cost uint32) {
		for i := range keys {
			if d := f.Decide(t, 0, take(key(i), limit, cost))[0]; !d.Allowed {
				t.Fatalf("%s: %+v", key(i), d)
			}
		}
	}
	take(1)
	pass(150 * time.Millisecond)
	server.lost.Store(told)
	take(10)
	if told {
		pass(150 * time.Millisecond)
	}
	server.set(bad)
	server.lost.Store(false)
	pass(250 * time.Millisecond)
	take(0)
	for i := range keys {
		if bad != "eventual/" && !strings.HasPrefix(string(key(i)), bad) && !told {
			server.left(t, key(i), limit, 989)
		}
	}
	if st := f.Nodes[0].Stats(); st.Away || st.Unanswered != 0 || bad == "eventual/" && st.Undecodable != 0 {
		t.Errorf("%+v while some keys cannot be read", st)
	}
	pass(5 * time.Second)
	server.set("")
	pass(2 * time.Second)
	for i := range keys {
		server.left(t, key(i), limit, 989)
	}
	if n, units := f.Nodes[0].Unsent(); n != 0 || units != 0 || f.Nodes[0].Stats().Undecodable != 0 {
		t.Errorf("%d units of %d keys were not told: %+v", units, n, f.Nodes[0].Stats())
	}
}

// left fails the test unless the store, garbled or not, has that many units of a key left.
func (g *garbled) left(t *testing.T, key stint.Key, limit *stint.Limit, want int64) {
	t.Helper()
	if n := testkit.Decide(t, g.Store, stint.Take{Key: key, Limit: limit})[0].Remaining; n != want {
		t.Errorf("%d are left of %s, want %d", n, key, want)
	}
}

// A key that nobody takes from and the store cannot read is forgotten: the store answers for it.
func TestUndecodableForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		server := &garbled{Store: f.Store.Store}
		server.set("")
		f.Store.Store = server
		f.Decide(t, 0, take("bad", thousand, 1))
		f.Decide(t, 0, take("good", thousand, 1))
		pass(150 * time.Millisecond)
		server.set("bad")
		f.Decide(t, 0, take("bad", thousand, 0))
		pass(250 * time.Millisecond)
		call := stint.Call{Takes: []stint.Take{take("bad", thousand, 1)}}
		undecodable, is := errors.AsType[*stint.CorruptState](f.Nodes[0].Decide(context.Background(), &call))
		if !is || !slices.Equal(undecodable.Takes, []int{0}) {
			t.Errorf("%v", undecodable)
		}
		if st := f.Nodes[0].Stats(); st.Keys != 1 || st.Undecodable != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestUndecodableOnItsWay: the number of keys that the store cannot read stays what it was while it
// is asked again, also where the answer is lost.
func TestUndecodableOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		var mu sync.Mutex
		var while []int64 // how many they are as the store is told of them
		server := &garbled{Store: f.Store.Store, seen: func(takes []stint.Take) {
			if slices.ContainsFunc(takes, func(t stint.Take) bool { return t.Key == "bad1" }) {
				mu.Lock()
				defer mu.Unlock()
				while = append(while, f.Nodes[0].Stats().Undecodable)
			}
		}}
		server.set("")
		f.Store.Store = server
		takes := []stint.Key{"bad1", "bad2", "good"}
		for _, key := range takes {
			f.Decide(t, 0, take(key, thousand, 1))
		}
		pass(150 * time.Millisecond)
		server.set("bad")
		for _, key := range takes {
			f.Decide(t, 0, take(key, thousand, 1))
		}
		pass(250 * time.Millisecond)
		mu.Lock()
		while = nil
		mu.Unlock()
		pass(3 * time.Second)
		server.lost.Store(true)
		server.set("")
		pass(3 * time.Second)
		server.lost.Store(false)
		pass(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(while) < 4 || slices.ContainsFunc(while, func(n int64) bool { return n != 2 }) {
			t.Errorf("%d keys could not be read as the store was told of them, want 2 each time", while)
		}
		if n := f.Nodes[0].Stats().Undecodable; n != 0 {
			t.Errorf("%d keys cannot be read in the end", n)
		}
	})
}

// A key that is reset is forgotten here too where the state of another key of the call cannot be
// read.
func TestResetBesideUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, 1, eventual.Options{})
		server := &testkit.UndecodableStore{Store: f.Store.Store, Bad: func(key stint.Key) bool { return key == "bad" }}
		f.Store.Store = server
		f.Decide(t, 0, take("good", thousand, 5))
		pass(150 * time.Millisecond)
		f.Decide(t, 0, take("good", thousand, 3))
		reset, bad := take("good", thousand, 0), stint.Take{Key: "bad", Limit: thousand, Cost: 1, Independent: true}
		reset.Op, reset.Independent = stint.Reset, true
		err := f.Nodes[0].Decide(context.Background(), &stint.Call{Takes: []stint.Take{bad, reset}})
		if undecodable, is := errors.AsType[*stint.CorruptState](err); !is || !slices.Equal(undecodable.Takes, []int{0}) {
			t.Errorf("%v", err)
		}
		if n := f.Decide(t, 0, take("good", thousand, 0))[0].Remaining; n != 1000 {
			t.Errorf("%d are left here after a reset", n)
		}
		pass(time.Second)
		if n := f.Stored(t, "good", thousand).Remaining; n != 1000 {
			t.Errorf("%d are left at the store after a reset", n)
		}
	})
}
