package redis

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// gate is a proxy before a server. It can withhold the server's answers, or refuse connections.
type gate struct {
	listener net.Listener
	stalled  atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

func newGate(t *testing.T, server string) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: listener}
	t.Cleanup(g.shut)
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			if err != nil {
				from.Close()
				continue
			}
			g.mu.Lock()
			g.conns = append(g.conns, from, to)
			g.mu.Unlock()
			go func() {
				io.Copy(to, from) //nolint:errcheck // one side has ended
				to.Close()
			}()
			go func() {
				io.Copy(g.through(from), to) //nolint:errcheck // one side has ended
				from.Close()
			}()
		}
	}()
	return g
}

// through returns a writer to a connection that discards everything while the gate is stalled.
func (g *gate) through(to net.Conn) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if g.stalled.Load() {
			return len(p), nil
		}
		return to.Write(p)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (g *gate) shut() {
	g.listener.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range g.conns {
		conn.Close()
	}
}

// failures runs callers that each make times calls, and returns how many calls failed.
func failures(t *testing.T, s *Store, callers, times int, deadline time.Duration) int64 {
	t.Helper()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1_000_000, Per: time.Second})
	var all sync.WaitGroup
	var failed atomic.Int64
	for c := range callers {
		all.Go(func() {
			for range times {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				call := stint.Call{Takes: []stint.Take{{Key: stint.Key(fmt.Sprint(c)), Limit: limit, Cost: 1}}}
				if s.Decide(ctx, &call) != nil {
					failed.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	return failed.Load()
}

// One of the two connections fails, at once or by never answering. The calls on it fail; all others
// use the other connection, however few callers there are.
func TestOneConnectionFails(t *testing.T) {
	for _, broken := range []int{0, 1} {
		for what, fail := range map[string]func(g *gate){
			"refuses": (*gate).shut,
			"hangs":   func(g *gate) { g.stalled.Store(true) },
		} {
			t.Run(fmt.Sprint("connection ", broken, " ", what), func(t *testing.T) {
				t.Parallel()
				server := testkit.StartRedis(t)
				s, err := Open(server.URL(), Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				g := newGate(t, server.Addr)
				s.links[broken].Target.InitAddress = []string{g.listener.Addr().String()}
				for i := range s.links {
					if _, err := s.links[i].Client(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if n := failures(t, s, 64, 50, 10*time.Second); n > 0 {
					t.Fatalf("%d calls failed while all was well", n)
				}
				fail(g)
				for _, callers := range []int{64, 4} {
					if n := failures(t, s, callers, 200, time.Second); n > 2*64 {
						t.Errorf("%d of %d calls of %d callers failed, want at most %d", n, 200*callers, callers, 2*64)
					}
				}
			})
		}
	}
}
