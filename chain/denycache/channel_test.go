package denycache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stint"
)

// hub sends the notices of a test as a server does: each listener gets them in order.
type hub struct {
	mu        sync.Mutex
	listeners map[*listener]bool
	refuses   error // error of Publish and Listen; nil: none
	deaf      bool  // messages wait until it is false
}

type listener struct {
	channels  []string
	onMessage func(channel, message string)
	held      [][2]string
	end       chan error
}

func (h *hub) Publish(_ context.Context, channel, message string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses != nil {
		return h.refuses
	}
	for l := range h.listeners {
		if !slices.Contains(l.channels, channel) {
			continue
		}
		l.held = append(l.held, [2]string{channel, message})
	}
	h.deliver()
	return nil
}

func (h *hub) deliver() {
	for l := range h.listeners {
		for ; len(l.held) > 0 && !h.deaf; l.held = l.held[1:] {
			l.onMessage(l.held[0][0], l.held[0][1])
		}
	}
}

func (h *hub) Listen(ctx context.Context, channels []string, onMessage func(channel, message string)) error {
	l := &listener{channels: channels, onMessage: onMessage, end: make(chan error, 1)}
	h.mu.Lock()
	if h.refuses != nil {
		defer h.mu.Unlock()
		return h.refuses
	}
	h.listeners[l] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.listeners, l)
		h.mu.Unlock()
	}()
	select {
	case err := <-l.end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// silence withholds messages, or releases them.
func (h *hub) silence(deaf bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf = deaf
	h.deliver()
}

var errCut = errors.New("cut")

// cut ends all calls of Listen, and passes nothing until it is mended.
func (h *hub) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = errCut
	for l := range h.listeners {
		l.end <- errCut
	}
}

func (h *hub) mend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = nil
}

// fleet is several processes on one store.
type fleet struct {
	*hub
	nodes   []*node
	changes []bool // changes of the first node
	reasons []error
}

// inFleet runs a test with processes that receive each other's notices.
func inFleet(t *testing.T, count int, o Options, test func(t *testing.T, f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{hub: &hub{listeners: map[*listener]bool{}}}
		shared := newShared()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for i := range count {
			o := o
			o.Notices = f.hub
			if i == 0 {
				o.OnChange = func(up bool, reason error) {
					f.changes, f.reasons = append(f.changes, up), append(f.reasons, reason)
				}
			}
			n := &node{t, New(shared, o), shared}
			f.nodes = append(f.nodes, n)
			running.Go(func() { n.Store.Run(ctx) })
		}
		pass(2 * beatEvery)
		synctest.Wait()
		test(t, f)
		cancel()
		running.Wait()
		if n := f.nodes[0]; n.Stats().Up || n.Stats().Keys != 0 {
			t.Errorf("after its end: %+v", n.Stats())
		}
	})
}

// full makes all nodes cache that the key is used up.
func (f *fleet) full(key stint.Key) {
	for i, n := range f.nodes {
		n.Helper()
		if i == 0 {
			n.expect(1, true, take(key, one, 1))
		}
		n.expect(1, false, take(key, one, 1))
		n.expect(0, false, take(key, one, 1))
	}
}

// TestTold: after one process gives units back, all others call the store for that key; other keys
// stay cached.
func TestTold(t *testing.T) {
	other := stint.MustLimit(stint.Spec{Requests: 5, Per: time.Minute, FromFirst: true})
	for name, change := range map[string]func(n *node){
		"reset":  func(n *node) { n.ask(stint.Take{Key: "a", Limit: one, Op: stint.Reset}) },
		"refund": func(n *node) { n.ask(stint.Take{Key: "a", Limit: one, Cost: 1, Op: stint.Refund}) },
		"force":  func(n *node) { n.ask(stint.Take{Key: "a", Limit: one, Cost: 1, Op: stint.Force}) },
		"other numbers": func(n *node) {
			n.ask(take("a", other, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, 3, Options{}, func(t *testing.T, f *fleet) {
				f.full("a")
				f.full("b")
				change(f.nodes[1])
				synctest.Wait()
				for _, n := range f.nodes {
					if _, asked := n.ask(take("a", one, 1)); asked != 1 {
						t.Error("the key is remembered")
					}
					n.expect(0, false, take("b", one, 1))
				}
			})
		})
	}
	t.Run("reload", func(t *testing.T) {
		inFleet(t, 3, Options{}, func(_ *testing.T, f *fleet) {
			f.full("a")
			f.full("b")
			f.nodes[2].Forget()
			synctest.Wait()
			for _, n := range f.nodes {
				n.expect(1, false, take("a", one, 1))
				n.expect(1, false, take("b", one, 1))
			}
		})
	})
	t.Run("live takes tell nobody", func(t *testing.T) {
		inFleet(t, 2, Options{}, func(_ *testing.T, f *fleet) {
			f.full("a")
			f.nodes[1].ask(stint.Take{Key: "a", Limit: one, Cost: 1, Op: stint.Refund, Handling: &stint.Handling{Live: true}})
			synctest.Wait()
			f.nodes[0].expect(0, false, take("a", one, 1))
		})
	})
	t.Run("more than a message holds", func(t *testing.T) {
		inFleet(t, 2, Options{}, func(t *testing.T, f *fleet) {
			f.full("a")
			f.mu.Lock() // one message may be in flight, and no second one
			for i := range 2*maxPending + 1 {
				f.nodes[1].notify(uint64(i + 1))
			}
			f.mu.Unlock()
			synctest.Wait()
			f.nodes[0].expect(1, false, take("a", one, 1))
		})
	})
}

// TestDivided: if the store decides a call in several steps, the others are notified of keys that
// may have been charged and given back.
func TestDivided(t *testing.T) {
	for _, divided := range []bool{false, true} {
		inFleet(t, 2, Options{Divided: divided}, func(t *testing.T, f *fleet) {
			f.full("a")
			results, _ := f.nodes[0].ask(take("beside", ten, 11)) // cached as denied
			if results[0].Allowed {
				t.Fatal(results)
			}
			f.nodes[1].expect(1, false, take("a", one, 1), take("beside", ten, 1))
			f.nodes[1].expect(1, false, take("new", one, 2), take("beside", ten, 1))
			synctest.Wait()
			want := int64(0)
			if divided {
				want = 1
			}
			f.nodes[0].expect(want, false, take("beside", ten, 11))
		})
	}
}

// TestUnderWay: an answer that was in flight when a notice came is not cached.
func TestUnderWay(t *testing.T) {
	inFleet(t, 2, Options{}, func(t *testing.T, f *fleet) {
		a, b := f.nodes[0], f.nodes[1]
		a.expect(1, true, take("a", one, 1))
		a.shared.takes = 100 * time.Millisecond // decided after 50 ms
		var asking sync.WaitGroup
		asking.Go(func() {
			call := stint.Call{Takes: []stint.Take{take("a", one, 1)}}
			if err := a.Decide(t.Context(), &call); err != nil || call.Results[0].Allowed {
				t.Error(call.Results, err)
			}
		})
		pass(70 * time.Millisecond)
		synctest.Wait()
		a.shared.takes = 0
		b.expect(1, true, stint.Take{Key: "a", Limit: one, Op: stint.Reset})
		asking.Wait()
		a.expect(1, true, take("a", one, 1))
	})
}

// TestLost: a process whose channel ends drops everything, calls the store until the channel is
// back, and misses no notice.
func TestLost(t *testing.T) {
	inFleet(t, 2, Options{}, func(t *testing.T, f *fleet) {
		n := f.nodes[0]
		f.full("a")
		f.cut()
		synctest.Wait()
		if s := n.Stats(); s.Up || s.Keys != 0 || s.Lost != 1 {
			t.Errorf("%+v", s)
		}
		for range 3 {
			n.expect(1, false, take("a", one, 1))
			pass(time.Second)
		}
		f.nodes[1].expect(1, true, stint.Take{Key: "a", Limit: one, Op: stint.Reset})
		n.expect(1, true, take("a", one, 1))
		f.mend()
		pass(time.Second)
		n.expect(1, false, take("a", one, 1))
		n.expect(0, false, take("a", one, 1))
		if !slices.Equal(f.changes, []bool{true, false, true}) || !errors.Is(f.reasons[1], errCut) {
			t.Errorf("changes %v %v", f.changes, f.reasons)
		}
	})
}

// TestToldLater: a process that cannot send notices sends them when it can.
func TestToldLater(t *testing.T) {
	inFleet(t, 2, Options{}, func(t *testing.T, f *fleet) {
		f.full("a")
		f.mu.Lock()
		f.refuses = errCut // Listen goes on in all processes
		f.mu.Unlock()
		f.nodes[1].expect(1, true, stint.Take{Key: "a", Limit: one, Op: stint.Reset})
		f.nodes[0].expect(0, false, take("a", one, 1))
		pass(maxBeatAge) // beats do not arrive either
		f.nodes[0].expect(1, true, take("a", one, 1))
		f.nodes[0].expect(1, false, take("a", one, 1))
		f.mend()
		pass(beatEvery + pause)
		f.nodes[0].expect(1, false, take("a", one, 1))
		f.nodes[0].expect(0, false, take("a", one, 1))
	})
}

// TestSilent: if messages stop arriving though Listen goes on, the cache is not used for longer
// than a second after the last one; when they arrive again, it is up to date.
func TestSilent(t *testing.T) {
	inFleet(t, 2, Options{MaxAge: time.Hour}, func(t *testing.T, f *fleet) {
		n := f.nodes[0]
		f.full("a")
		f.full("b")
		f.silence(true)
		began := time.Now()
		f.nodes[1].expect(1, true, stint.Take{Key: "a", Limit: one, Op: stint.Reset})
		for asked := int64(0); asked == 0; pass(10 * time.Millisecond) {
			if _, asked = n.ask(take("a", one, 0), take("b", one, 1)); time.Since(began) > time.Second {
				t.Fatal("the memory is used")
			}
		}
		pass(2 * time.Second)
		f.silence(false)
		pass(beatEvery)
		synctest.Wait()
		n.expect(0, false, take("b", one, 1))
		n.expect(1, true, take("a", one, 1))
		if !slices.Equal(f.changes, []bool{true, false, true}) || !errors.Is(f.reasons[1], errNoBeats) {
			t.Errorf("changes %v %v", f.changes, f.reasons)
		}
	})
}

// TestStrangers: a message of another release means all keys, and a beat of another process is
// ignored.
func TestStrangers(t *testing.T) {
	inFleet(t, 1, Options{}, func(t *testing.T, f *fleet) {
		n := f.nodes[0]
		for _, text := range []string{"", "z", "k1234567", "b1234567812345678"} {
			n.Forget()
			n.ask(stint.Take{Key: "a", Limit: one, Op: stint.Reset})
			synctest.Wait()
			f.full("a")
			if err := f.Publish(t.Context(), sharedChannel, text); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			n.expect(1, false, take("a", one, 1))
		}
	})
}

// TestLastWords: a process that ends sends its pending notices.
func TestLastWords(t *testing.T) {
	inFleet(t, 1, Options{}, func(t *testing.T, f *fleet) {
		f.full("a")
		ending := New(f.nodes[0].shared, Options{Notices: f.hub})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ending.notify(hashOf("a", one.Algorithm()))
		ending.Run(ctx)
		synctest.Wait()
		f.nodes[0].expect(1, false, take("a", one, 1))
	})
}
