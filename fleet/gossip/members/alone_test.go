package members

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/fleet/gossip"
	"stint/internal/testkit"
	"stint/internal/text"
)

// aloneNode is a node that may find no other one. changes are the calls of OnAlone.
type lonely struct {
	*Members
	log *text.OutputBuffer

	mu      sync.Mutex
	changes []bool
}

func (l *lonely) seen() []bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]bool(nil), l.changes...)
}

// startLonely starts a node that listens at an address.
func startLonely(t *testing.T, addr string, alone time.Duration, join ...string) *lonely {
	t.Helper()
	l := &lonely{log: new(text.OutputBuffer)}
	l.Members = New(Options{
		Addr: addr, Join: join, Alone: alone, Log: slog.New(slog.NewTextHandler(l.log, nil)),
		OnAlone: func(alone bool) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.changes = append(l.changes, alone)
		},
	})
	l.joinAlone = 50 * time.Millisecond
	s := gossip.New(l.Members, gossip.StoreOptions{Alone: l.Alone})
	testkit.Must(t, s.Start())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return l
}

// A node that finds no other one is alone until it finds one. It is not alone again when that one
// stops.
func TestAlone(t *testing.T) {
	t.Parallel()
	const soon = time.Millisecond
	other := testkit.Address(t)
	a := startLonely(t, "127.0.0.1:0", soon, other)
	testkit.Until(t, "it is alone", a.Alone)
	if log := a.log.String(); !strings.Contains(log, "not ready") || !strings.Contains(log, other) {
		t.Errorf("%s", log)
	}
	list := New(Options{Addr: other})
	testkit.Must(t, list.Open(gossip.New(nil, gossip.StoreOptions{})))
	testkit.Until(t, "it has found the other one", func() bool { return !a.Alone() })
	list.Close()
	testkit.Until(t, "the other one left", func() bool { return bytes.Contains([]byte(a.log.String()), []byte("a node left")) })
	<-time.After(10 * a.joinAlone)
	if got := a.seen(); a.Alone() || len(got) != 2 || !got[0] || got[1] {
		t.Errorf("alone: %v, told %v", a.Alone(), got)
	}
}

// A node is never alone if Options.Join names nobody else. It is alone if a name in Join has no
// address.
func TestAloneAmongNone(t *testing.T) {
	t.Parallel()
	free := testkit.Address(t)
	_, port, err := net.SplitHostPort(testkit.Address(t))
	testkit.Must(t, err)
	none := startLonely(t, "127.0.0.1:0", time.Millisecond)
	own := startLonely(t, free, time.Millisecond, free)
	everywhere := startLonely(t, "0.0.0.0:"+port, time.Millisecond, "127.0.0.1:"+port)
	off := startLonely(t, "127.0.0.1:0", 0, testkit.Address(t))
	unknown := startLonely(t, "127.0.0.1:0", time.Millisecond, "nobody.invalid:7946")
	testkit.Until(t, "it is alone", unknown.Alone)
	<-time.After(10 * none.joinAlone)
	for name, l := range map[string]*lonely{"no others": none, "its own address": own, "all its addresses": everywhere, "off": off} {
		if l.Alone() || len(l.seen()) > 0 {
			t.Errorf("%s: alone\n%s", name, l.log.String())
		}
	}
}
