package recordlog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"stint"
	"stint/internal/testkit"
	"stint/notify"
	"stint/records/replication"
)

// A caller whose context ends returns while the call to the server still runs. The call then writes nothing
// that the caller reads: the race detector checks that.
func TestCallerGone(t *testing.T) {
	server := testkit.StartRedis(t)
	l, d := open(t, server.URL()), openDeliveries(t, server.URL())
	head := add(t, l, replication.Head{}, false, set("a", "1"))
	testkit.Must(t, d.Add(t.Context(), []notify.Delivery{delivery("billing", 1)}))
	server.Freeze()
	defer server.Thaw()
	for name, call := range map[string]func(context.Context) error{
		"read":  func(ctx context.Context) error { _, _, err := l.Read(ctx, 0, 0); return err },
		"wait":  func(ctx context.Context) error { _, _, err := l.Read(ctx, 1, time.Minute); return err },
		"state": func(ctx context.Context) error { return l.State(ctx, func([]replication.Write) error { return nil }) },
		"beat":  func(ctx context.Context) error { _, _, err := l.Beat(ctx, replication.Node{Name: "n1"}); return err },
		"append": func(ctx context.Context) error {
			e := head.Next([]byte("x"))
			_, err := l.Append(ctx, head, &e, nil, false)
			return err
		},
		"restore": func(ctx context.Context) error {
			_, err := l.Restore(ctx, head, replication.Head{Number: 9}, pages(nil))
			return err
		},
		"claim": func(ctx context.Context) error {
			_, err := d.Claim(ctx, notify.Claim{Receiver: "billing", Max: 1, Lease: time.Hour})
			return err
		},
		"retry": func(ctx context.Context) error { _, err := d.Retry(ctx, "billing", ""); return err },
		"list":  func(ctx context.Context) error { _, err := d.List(ctx, notify.Query{Limit: 10}); return err },
	} {
		for range 20 { // the call ends at almost the same time, before its caller or after it
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	}
}

// A call that is under way at Close may have reached the server. One after it has not.
func TestClosed(t *testing.T) {
	l := open(t, testkit.StartRedis(t).URL())
	_, err := do(t.Context(), &l.link, "append", callTimeout, func(context.Context, rueidis.Client) (int, error) {
		l.Close()
		return 0, rueidis.ErrClosing
	})
	if !errors.Is(err, stint.ErrUnknown) {
		t.Errorf("under way: %v", err)
	}
	if _, _, err := l.Read(t.Context(), 0, 0); err == nil || errors.Is(err, stint.ErrUnknown) {
		t.Errorf("after it: %v", err)
	}
}
