package stream

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"stint/gateway/queue"
	"stint/internal/testkit"
)

// A call of a request ends in its time, also while the worker connects again to a server that does not answer.
// Only so many wait for such a server.
func TestSilentServer(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openFor(t, Options{URL: server.URL()})
	if _, err := s.Holds(t.Context(), "line"); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	var silent net.Listener // accepts connections, as the system does for it, and never answers
	testkit.Until(t, "the address is free", func() (free bool) {
		var err error
		silent, err = net.Listen("tcp", server.Addr)
		return err == nil
	})
	var accepted atomic.Int64
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			accepted.Add(1)
		}
	}()
	defer silent.Close()
	calls := map[string]func(ctx context.Context) error{
		"look-up": func(ctx context.Context) error {
			_, err := s.Holds(ctx, "line")
			return err
		},
		"put": func(ctx context.Context) error {
			_, err := s.Put(ctx, &queue.Entry{ID: queue.NewID(), Line: "line", Rule: "rule"}, queue.Bounds{Places: 1, Bytes: 1 << 20})
			return err
		},
	}
	for name, call := range calls {
		before := accepted.Load()
		claimed := make(chan struct{})
		go func() {
			defer close(claimed)
			for accepted.Load() == before {
				_, _, err := s.Claim(t.Context(), "worker", time.Second) // connects, and waits
				if err == nil {
					t.Error("a silent server answered")
				}
			}
		}()
		testkit.Until(t, "the worker connects", func() bool { return accepted.Load() > before })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(began); err == nil || took > time.Second {
			t.Errorf("a %s took %v: %v", name, took, err)
		}
		<-claimed
	}
	s.waiting.Store(mostWaiting)
	if err := calls["put"](t.Context()); !errors.Is(err, errSilent) {
		t.Errorf("one too many: %v", err)
	}
}
