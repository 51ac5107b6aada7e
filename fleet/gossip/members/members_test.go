package members_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stint"
	"stint/fleet/gossip"
	"stint/fleet/gossip/members"
	"stint/internal/text"
)

// node is one of a fleet in this process.
type node struct {
	*gossip.Store
	members *members.Members
	log     *text.OutputBuffer
	stop    func()
}

// start starts a node that joins others, with a short interval.
func start(t testing.TB, key []byte, join ...*node) *node {
	t.Helper()
	return startAt(t, key, 20*time.Millisecond, join...)
}

func startAt(t testing.TB, key []byte, interval time.Duration, join ...*node) *node {
	t.Helper()
	n := &node{log: new(text.OutputBuffer)}
	o := members.Options{Addr: "127.0.0.1:0", Key: key, Log: slog.New(slog.NewTextHandler(n.log, nil))}
	for _, other := range join {
		o.Join = append(o.Join, other.members.Addr())
	}
	n.members = members.New(o)
	n.Store = gossip.New(n.members, gossip.StoreOptions{Options: gossip.Options{Interval: interval}})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(n.stop)
	return n
}

var day = stint.MustLimit(stint.Spec{Requests: 100, Per: 24 * time.Hour, CarryDebt: true})

// take asks a node and returns what it answers. A node that stood still, or whose packet was
// lost, may wait in vain for the others: nothing was charged then, and it is asked again.
func (n *node) take(t testing.TB, take stint.Take) stint.Decision {
	t.Helper()
	call := stint.Call{Takes: []stint.Take{take}}
	until(t, "a decision", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := n.Decide(ctx, &call)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	})
	return call.Results[0]
}

// until waits for something that is about to be.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(what, "did not come to be")
		}
	}
}

func (n *node) left(t testing.TB, key stint.Key) int64 {
	return n.take(t, stint.Take{Key: key, Limit: day}).Remaining
}

func TestFleet(t *testing.T) {
	leaks := []goleak.Option{
		goleak.IgnoreCurrent(),
		// Memberlist's probes outlast its Shutdown, by their own timeout at most.
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).triggerFunc"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).pushPullTrigger"),
	}
	key := bytes.Repeat([]byte("k"), 32)
	a := start(t, key)
	b := start(t, key, a)
	c := start(t, key, a)
	until(t, "three nodes that know each other", func() bool {
		return a.Stats().Peers == 2 && b.Stats().Peers == 2 && c.Stats().Peers == 2
	})
	a.take(t, stint.Take{Key: "x", Limit: day, Cost: 10})
	b.take(t, stint.Take{Key: "x", Limit: day, Cost: 20})
	for i, n := range []*node{a, b, c} {
		until(t, "30 taken on every node", func() bool { return n.left(t, "x") == 70 })
		_ = i
	}
	t.Run("asking", func(t *testing.T) {
		c.take(t, stint.Take{Key: "asked", Limit: day, Cost: 60})
		if d := a.take(t, stint.Take{Key: "asked", Limit: day, Cost: 30, Handling: &stint.Handling{Terms: &stint.Terms{AskPeers: true}}}); !d.Allowed || d.Remaining != 10 {
			t.Errorf("%+v", d)
		}
		if d := b.take(t, stint.Take{Key: "asked", Limit: day, Cost: 30, Handling: &stint.Handling{Terms: &stint.Terms{AskPeers: true}}}); d.Allowed {
			t.Errorf("%+v", d)
		}
	})
	t.Run("stranger", func(t *testing.T) {
		other := start(t, nil, a)
		third := start(t, bytes.Repeat([]byte("z"), 16), a)
		until(t, "refusals, one of them logged", func() bool { // they are counted before
			return a.members.Refused() >= 2 && strings.Contains(a.log.String(), "without our key")
		})
		if a.Stats().Peers != 2 || other.Stats().Peers != 0 || third.Stats().Peers != 0 {
			t.Error("somebody without the key is a peer")
		}
		if n := strings.Count(a.log.String(), "without our key"); n != 1 {
			t.Errorf("refused hosts were logged %d times:\n%s", n, a.log)
		}
		other.take(t, stint.Take{Key: "x", Limit: day, Cost: 50})
		if left := a.left(t, "x"); left != 70 {
			t.Errorf("%d left", left)
		}
		other.stop()
		third.stop()
	})
	t.Run("another release", func(t *testing.T) {
		later := binary.LittleEndian.AppendUint64([]byte{99, 1}, b.ID())
		for range 3 {
			b.members.Send(gossip.Message{To: a.ID(), Bytes: later})
		}
		until(t, "messages of a later release", func() bool { return a.Stats().Foreign == 3 })
		if n := strings.Count(a.log.String(), "another release"); n != 1 || !strings.Contains(a.log.String(), b.members.Addr()) {
			t.Errorf("logged %d times:\n%s", n, a.log)
		}
	})
	t.Run("long messages", func(t *testing.T) {
		for i := range 3000 {
			a.take(t, stint.Take{Key: stint.Key(strings.Repeat("long ", 10) + string(rune('a'+i%26)) + string(rune('0'+i/26))), Limit: day, Cost: 1})
		}
		until(t, "all keys on every node", func() bool { return b.Stats().Keys >= 3002 && c.Stats().Keys >= 3002 })
	})
	t.Run("late", func(t *testing.T) {
		d := start(t, key, b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		until(t, "a peer", func() bool { return d.Stats().Peers > 0 })
		if !d.WaitSynced(ctx) {
			t.Fatal("the new node was not told")
		}
		if left := d.left(t, "x"); left != 70 {
			t.Errorf("the new node believes that %d are left", left)
		}
		d.take(t, stint.Take{Key: "x", Limit: day, Cost: 5})
		d.stop() // and announces that
		until(t, "what the leaving node took", func() bool { return a.left(t, "x") == 65 })
		until(t, "that it has left", func() bool { return a.Stats().Peers == 2 })
	})
	for _, n := range []*node{c, b, a} {
		n.stop()
	}
	until(t, "an end of all goroutines", func() bool { return goleak.Find(leaks...) == nil })
}
