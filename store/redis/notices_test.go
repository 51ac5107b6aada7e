package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/store/redis"
)

// heard is what a listener received, and why it ended.
type heard struct {
	messages chan [2]string
	ended    chan error
}

// listen listens until the test ends or the channel is lost. It returns when messages arrive.
func listen(t *testing.T, s *redis.Store, channels ...string) *heard {
	t.Helper()
	h := &heard{make(chan [2]string, 100), make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ended <- s.Listen(ctx, append(channels, "ready"), func(channel, message string) { h.messages <- [2]string{channel, message} })
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if err := s.Publish(ctx, "ready", ""); err != nil {
			t.Fatal(err)
		}
		select {
		case <-h.messages:
			return h
		case err := <-h.ended:
			t.Fatal(err)
		case <-ticker.C:
		}
	}
}

// next returns the next message other than the one by which listen sees that messages arrive.
func (h *heard) next(t *testing.T) [2]string {
	t.Helper()
	for {
		select {
		case m := <-h.messages:
			if m[0] != "ready" {
				return m
			}
		case err := <-h.ended:
			t.Fatal(err)
		case <-t.Context().Done():
			t.Fatal("no message arrived")
		}
	}
}

// TestNotices: messages arrive in order and unchanged, on their channels of the namespace.
func TestNotices(t *testing.T) {
	server := testkit.StartRedis(t)
	a, b, other := openIn(t, server, "a"), openIn(t, server, "a"), openIn(t, server, "b")
	h := listen(t, b, "news", "more")
	publish := func(s *redis.Store, channel, message string) {
		t.Helper()
		if err := s.Publish(t.Context(), channel, message); err != nil {
			t.Fatal(err)
		}
	}
	publish(other, "news", "of another namespace")
	publish(a, "nobody listens", "")
	binary := "k\x00\xff\r\n"
	for i, m := range [][2]string{{"news", "1"}, {"more", "2"}, {"news", binary}, {"more", ""}} {
		publish(a, m[0], m[1])
		if got := h.next(t); got != m {
			t.Errorf("message %d is %q, want %q", i, got, m)
		}
	}
}

// TestNoticesEnd: the loss of the connection, or of the server, ends Listen; decisions go on.
func TestNoticesEnd(t *testing.T) {
	server := testkit.StartRedis(t)
	s := openIn(t, server, "a")
	lost := func(end func()) {
		t.Helper()
		h := listen(t, s, "news")
		end()
		err := <-h.ended
		if problem, ok := errors.AsType[*redis.Error](err); !ok || problem.Hint == "" {
			t.Errorf("%v, want an error with a hint", err)
		}
	}
	lost(func() { server.Do("CLIENT", "KILL", "TYPE", "pubsub") })
	if d, err := attempt(t.Context(), s, "a"); err != nil || !d.Allowed {
		t.Error(d, err)
	}
	lost(server.Stop)
	if err := s.Publish(t.Context(), "news", ""); err == nil {
		t.Error("published without a server")
	}
	if err := s.Listen(t.Context(), []string{"news"}, nil); err == nil {
		t.Error("listened without a server")
	}
}
