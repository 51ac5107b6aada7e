package app

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/app/settings"
	"stint/chain/guard"
	"stint/fleet/eventual"
	"stint/internal/testkit"
	"stint/store/memory"
	"stint/store/redis"
)

// muting is a store that can lose its answers to messages.
type muting struct {
	stint.Store
	mute atomic.Bool
}

// Decide implements stint.Store.
func (m *muting) Decide(ctx context.Context, call *stint.Call) error {
	err := m.Store.Decide(ctx, call)
	if call.At != 0 && m.mute.Load() {
		return stint.ErrUnknown
	}
	return err
}

// A key whose state cannot be read affects no other: all others are counted across nodes, it
// follows its policy, and when it is repaired its use is reported, once; also if it was reported
// before and the answer was lost.
func TestUndecodableEventual(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("reported before %v", lost), func(t *testing.T) { undecodableEventual(t, lost) })
	}
}

func undecodableEventual(t *testing.T, lost bool) {
	server := testkit.StartRedis(t)
	s, err := redis.Open(server.URL(), redis.Options{})
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	network := &muting{Store: guard.New(s, guard.Options{Timeout: patient, Local: memory.New(memory.Options{})})}
	f := startFleet(t, network, 2, eventual.Options{Interval: 20 * time.Millisecond})
	left := map[stint.Key]int64{"good": 1000, "bad": 1000, "other": 1000}
	take := func() {
		for key := range left {
			for node := range f.Nodes {
				d := f.Decide(t, node, ownTake(key, thousandOnce, 1))[0]
				if !d.Allowed || d.Degraded && key != "bad" {
					t.Fatalf("%s on node %d: %+v", key, node, d)
				}
				if !d.Degraded {
					left[key]--
				}
			}
		}
	}
	known := func(key stint.Key) {
		t.Helper()
		testkit.Until(t, fmt.Sprintf("all know that %d are left of %s", left[key], key), func() bool {
			for node := range f.Nodes {
				if d := f.Decide(t, node, ownTake(key, thousandOnce, 0))[0]; d.Degraded || d.Remaining != left[key] {
					return false
				}
			}
			return true
		})
	}
	take()
	known("bad")
	network.mute.Store(lost)
	if lost {
		take()
		testkit.Until(t, "messages have no answer", func() bool { return f.Nodes[0].Stats().Unanswered > 0 && f.Nodes[1].Stats().Unanswered > 0 })
	}
	server.Do("RENAME", "stint:token_bucket:bad", "kept")
	server.Do("RPUSH", "stint:token_bucket:bad", "x")
	network.mute.Store(false)
	for range 4 {
		take()
	}
	known("good")
	known("other")
	testkit.Until(t, "the bad key is answered by its policy, and that only", func() bool {
		st := f.Nodes[0].Stats()
		return f.Decide(t, 0, ownTake("bad", thousandOnce, 0))[0].Degraded && st.Undecodable == 1 && !st.Away && st.Unanswered == 0
	})
	server.Do("RENAME", "kept", "stint:token_bucket:bad")
	known("bad")
	testkit.Until(t, "the use is reported", func() bool { return f.Nodes[0].Stats().Undecodable+f.Nodes[1].Stats().Undecodable == 0 })
	known("bad")
	take()
	known("bad")
}

// A key whose state cannot be read affects no other limit, in no mode, even without requests for
// other keys for a while; and it is logged once.
func TestUndecodableService(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text := "domain: api\ndescriptors:\n"
	kinds := []string{"strict", "leased", "eventual"}
	for _, mode := range kinds {
		text += fmt.Sprintf("  - key: %s\n    rate_limit: {requests: 1000, per: 24h, algorithm: token_bucket, coordination: %s}\n", mode, mode)
	}
	write(t, file, text)
	s := start(t, func(c *settings.Config) { c.Rules, c.Store, c.StoreTimeout = []string{file}, server.URL(), patient })
	for _, mode := range kinds {
		s.ask(t, mode+"=bad")
		s.ask(t, mode+"=good")
	}
	for name := range strings.SplitSeq(server.Do("KEYS", "*:bad"), "\n") {
		server.Do("DEL", name)
		server.Do("RPUSH", name, "x")
	}
	for _, mode := range kinds {
		testkit.Until(t, mode+" is answered by its policy", func() bool { return strings.Contains(s.ask(t, mode+"=bad"), `"degraded":true`) })
	}
	for range 200 {
		for _, mode := range kinds {
			s.ask(t, mode+"=bad")
		}
	}
	for _, mode := range kinds {
		for _, body := range []string{s.ask(t, mode+"=good"), s.ask(t, mode+"=another")} {
			if strings.Contains(body, `"degraded":true`) {
				t.Errorf("%s: %s", mode, body)
			}
		}
	}
	if n := s.metric("stint_store_available"); n != 1 {
		t.Error("the store counts as away")
	}
	testkit.Until(t, "/readyz reports it without the key", func() bool {
		status, _, body := s.get("admin", "/readyz")
		return status == http.StatusOK && strings.Contains(body, "the states of some keys cannot be read") && !strings.Contains(body, "bad")
	})
	if n := s.metric(`stint_store_failures_total{reason="undecodable"}`); n < 400 {
		t.Errorf("%v calls could not be read", n)
	}
	s.log.await(t, 0, "level=ERROR", "the state of a key cannot be read", "WRONGTYPE", ":bad", "hint=")
}
