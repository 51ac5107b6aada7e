package recordlog

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/records/replication"
)

// slowPath returns the URL of a path to a server which carries so many bytes a second each way.
func slowPath(t *testing.T, server string, rate int) string {
	t.Helper()
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
	return u.String()
}

// Over a slow path large entries are appended, read and restored.
func TestSlowPath(t *testing.T) {
	l := open(t, slowPath(t, testkit.StartRedis(t).URL(), 512<<10))
	head := add(t, l, replication.Head{}, false, set("a", "1"))
	head = add(t, l, head, false, replication.Write{Key: []byte("large"), Value: make([]byte, 1<<20)}) // twice: as an entry and in the state
	var entries []replication.Entry
	testkit.Until(t, "a node has read the entry", func() bool {
		var err error
		entries, _, err = l.Read(t.Context(), 1, 0)
		return err == nil
	})
	if len(entries) != 1 || entries[0].Head() != head {
		t.Errorf("%d entries", len(entries))
	}
	if state := stateOf(t, l); len(state["large"]) != 1<<20 {
		t.Errorf("%d bytes in the state", len(state["large"]))
	}
	restored := replication.Head{Number: 9}
	if done, err := l.Restore(t.Context(), head, restored, pages(map[string]string{"large": strings.Repeat("v", 1<<20)})); err != nil || !done {
		t.Errorf("restored %t, %v", done, err)
	}
}

// A server that stands still is noticed after a second by each call, also by those for which a large answer is awaited.
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
