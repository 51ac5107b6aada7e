package recordlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/records/replication"
)

// slowPath returns the URL of a path to a server which carries so many bytes a second each way, and how many it has
// carried.
func slowPath(t *testing.T, server string, rate int) (path string, carried *atomic.Int64) {
	t.Helper()
	carried = new(atomic.Int64)
	u, err := url.Parse(server)
	testkit.Must(t, err)
	to := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	carry := func(to, from net.Conn) {
		defer to.Close()
		buf := make([]byte, rate/50)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				carried.Add(int64(n))
				time.Sleep(time.Duration(n) * time.Second / time.Duration(rate)) // as long as they take on this path
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			go carry(far, near)
			go carry(near, far)
		}
	}()
	u.Host = l.Addr().String()
	return u.String(), carried
}

// Over a slow path large entries are appended, read by nodes that wait for them, read as a state with pages of
// different sizes, and restored. The server knows no script yet.
func TestSlowPath(t *testing.T) {
	server := testkit.StartRedis(t)
	path, carried := slowPath(t, server.URL(), 512<<10)
	near, l := open(t, server.URL()), open(t, path)
	head := add(t, l, replication.Head{}, false, replication.Write{Key: []byte("large0"), Value: make([]byte, 1<<20)}) // twice: as an entry and in the state
	if n := carried.Load(); n > 5<<19 {
		t.Errorf("an entry of a MiB was sent as %d bytes", n)
	}
	for i := range 12 { // so that pages of the state differ
		var small []replication.Write
		for j := range 100 {
			small = append(small, set(fmt.Sprint("small", i, "-", j), "v"))
		}
		head = add(t, near, head, false, small...)
	}
	head = add(t, near, head, false, set("large1", strings.Repeat("v", 1<<20)))
	for _, wait := range []time.Duration{0, 250 * time.Millisecond} {
		l := open(t, path)
		entries, _, err := l.Read(t.Context(), head.Number-1, wait)
		if err != nil || len(entries) != 1 || entries[0].Head() != head {
			t.Errorf("waited %v: %d entries, %v", wait, len(entries), err)
		}
	}
	if state := stateOf(t, l); len(state) != 1202 || len(state["large1"]) != 1<<20 {
		t.Errorf("%d records, %d bytes", len(state), len(state["large1"]))
	}
	restored := replication.Head{Number: 99}
	if done, err := l.Restore(t.Context(), head, restored, pages(map[string]string{"large": strings.Repeat("v", 1<<20)})); err != nil || !done {
		t.Errorf("restored %t, %v", done, err)
	}
}

// A server that stands still is noticed after two seconds by each call, also by those for which a large answer is awaited.
// A change that was not sent has a known outcome.
func TestStandsStill(t *testing.T) {
	server := testkit.StartRedis(t)
	l := open(t, server.URL())
	head := add(t, l, replication.Head{}, false, replication.Write{Key: []byte("large"), Value: make([]byte, large)})
	l.tooLarge.Store(true)
	read(t, l, 0)
	if l.tooLarge.Load() {
		t.Error("reads are still taken for large")
	}
	server.Freeze()
	defer server.Thaw()
	for range 3 {
		began := time.Now()
		if _, _, err := l.Read(t.Context(), 0, 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*callTimeout {
			t.Errorf("read: %v after %v", err, time.Since(began))
		}
	}
	began := time.Now()
	e := head.Next(make([]byte, large))
	if _, err := l.Append(t.Context(), head, &e, nil, false); err == nil || errors.Is(err, stint.ErrUnknown) || time.Since(began) > 5*callTimeout {
		t.Errorf("append: %v after %v", err, time.Since(began))
	}
}
