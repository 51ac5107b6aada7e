package recordlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/records/replication"
)

// received returns how many bytes a server has received.
func received(t *testing.T, server *testkit.RedisServer) (n int) {
	t.Helper()
	_, rest, _ := strings.Cut(server.Do("INFO", "stats"), "total_net_input_bytes:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatalf("the bytes that the server received: %v", err)
	}
	return n
}

// Over a slow path large entries are appended, read by nodes that wait for them, read as a state with pages of
// different sizes, and restored. The server knows no script yet.
func TestSlowPath(t *testing.T) {
	server := testkit.StartRedis(t)
	path := "redis://" + testkit.StartProxy(t, server.Addr, testkit.ProxyOptions{Rate: 512 << 10}).Addr()
	near, l := open(t, server.URL()), open(t, path)
	head := add(t, l, replication.Head{}, false, replication.Write{Key: []byte("large0"), Value: make([]byte, 1<<20)}) // twice: as an entry and in the state
	if n := received(t, server); n > 5<<19 {
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
