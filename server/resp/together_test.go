package resp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/limiter"
)

// gathering is a store that decides nothing before n calls are there, and fails for the key bad.
type gathering struct {
	n       int64
	arrived atomic.Int64
	all     chan struct{}
}

func (g *gathering) Decide(ctx context.Context, call *stint.Call) error {
	if g.arrived.Add(1) == g.n {
		close(g.all)
	}
	select {
	case <-g.all:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Minute):
		return context.DeadlineExceeded
	}
	if strings.HasSuffix(string(call.Takes[0].Key), "bad") {
		return errors.New("away")
	}
	call.Results = append(call.Results[:0], stint.Decision{Allowed: true, Limit: 7, Remaining: int64(len(call.Takes[0].Key))})
	return nil
}

// A store that decides calls together gets the commands of a pipeline at the same time. They are
// answered in order, and so are the commands between them and behind them.
func TestTogether(t *testing.T) {
	const n = 300
	store := &gathering{n: n, all: make(chan struct{})}
	s := New(limiter.New(store, nil, limiter.Options{}), Options{Together: true})
	c := dial(t, serve(t, s))
	var all strings.Builder
	for i := range n {
		key := strings.Repeat("k", i%7+1)
		if i%10 == 9 {
			key = "bad"
		}
		all.WriteString(wire("CL.THROTTLE", key, "6", "1", "60"))
	}
	all.WriteString(wire("ECHO", "behind") + wire("FOO") + wire("CL.THROTTLE", "one", "6", "1", "60") + wire("PING") + "*1\r\n+\r\n")
	_, err := io.WriteString(c, all.String())
	testkit.Must(t, err)
	for i := range n {
		want := fmt.Sprintf("(0 7 %d -1 0)", i%7+2)
		if i%10 == 9 {
			want = "-" + noDecision(errors.New("away"))
		}
		if got := c.answer(); got != want {
			t.Fatalf("answer %d: %s, want %s", i, got, want)
		}
	}
	for _, want := range []string{"behind", "-ERR unknown command 'FOO', with args beginning with: ", "(0 7 4 -1 0)", "+PONG", "-ERR Protocol error: expected '$', got '+'", "EOF"} {
		if got := c.answer(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
