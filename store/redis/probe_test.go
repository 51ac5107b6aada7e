package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"stint/internal/testkit"
	"stint/store/redis/connect"
)

// hung is a client whose first call gets no answer: it went to a frozen server, which no longer
// holds the key.
type hung struct {
	rueidis.Client
	calls atomic.Int64
	held  chan struct{} // closed when the first call fails
}

func (h *hung) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if h.calls.Add(1) > 1 {
		return h.Client.Do(ctx, cmd)
	}
	<-h.held
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	return h.Client.Do(canceled, cmd)
}

// A probe that hangs does not keep callers from a server that answers, and neither does its end.
func TestHungProbe(t *testing.T) {
	t.Parallel()
	s, err := Open(testkit.StartRedis(t).URL(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client, err := s.links[0].Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := &hung{Client: client, held: make(chan struct{})}
	giveUp := sync.OnceFunc(func() { close(h.held) })
	defer giveUp()
	c := newCommitter(make([]connect.Link, 1), "stint")
	ping := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		p, _ := c.exchange(ctx, h, new(batch), byPing)
		return p.err
	}
	if ping() == nil {
		t.Fatal("there is an answer before a probe had one")
	}
	testkit.Until(t, "the server decides", func() bool { return ping() == nil })
	giveUp()
	testkit.Until(t, "no probe is under way", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.connections[0].probes == 0
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.anyHealthyLocked() {
		t.Error("a connection that answers is given up for a probe that began before")
	}
}
