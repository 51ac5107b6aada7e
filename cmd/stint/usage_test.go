package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"stint/internal/testkit"
)

const usageRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 400, unit: year, time_zone: UTC, usage: 2, notify: [50%, 100%], on_store_failure: deny}
`

// usage returns what each subject used by the node's admin API.
func (n *node) usage(t testing.TB) map[string]int64 {
	t.Helper()
	resp, err := n.client.Get(n.admin + "/v1/usage")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Usage []struct {
			Subject string
			Used    int64
		}
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(body, &answer) != nil {
		t.Fatalf("%d %s, %v", resp.StatusCode, body, err)
	}
	used := map[string]int64{}
	for _, r := range answer.Usage {
		used[r.Subject] += r.Used
	}
	return used
}

// Nodes are killed with kill -9 while they decide, and so is a Redis that syncs each write. The usage of each
// subject is the sum of what was admitted: at least every unit whose answer came, and at most those and
// the requests without an answer. Each threshold has one event.
func TestUsageSurvivesKills(t *testing.T) {
	t.Run("plain", func(t *testing.T) { usageSurvivesKills(t, usageRules) })
	t.Run("durable", func(t *testing.T) {
		usageSurvivesKills(t, strings.Replace(usageRules, "usage: 2", "usage: 2, durable: true", 1))
	})
}

func usageSurvivesKills(t *testing.T, rules string) {
	redis := testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir())
	const users, rounds = 4, 4
	var admitted, unknown [users]atomic.Int64
	for round := range rounds {
		nodes := []*node{startNode(t, rules, "--store="+redis.URL(), unhurried), startNode(t, rules, "--store="+redis.URL(), unhurried)}
		var callers sync.WaitGroup
		var stop atomic.Bool
		for c := range 8 {
			callers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(round), uint64(c)))
				for i := 0; i < 2000 && !stop.Load(); i++ {
					user := r.IntN(users)
					a, err := nodes[c%2].ask(context.Background(), "user", fmt.Sprint(user))
					switch {
					case err != nil:
						unknown[user].Add(1)
						if c%2 == 0 {
							return // its node was killed
						}
					case a.Allowed && !a.Degraded:
						admitted[user].Add(1)
					}
				}
			})
		}
		for start := time.Now(); time.Since(start) < patience; {
			if n := admitted[0].Load(); n >= int64(40*(round+1)) {
				break
			}
			pass(time.Millisecond)
		}
		nodes[0].kill(t)
		stop.Store(true)
		callers.Wait()
		if round == 1 {
			redis.Restart()
		}
		nodes[1].kill(t)
	}
	n := startNode(t, rules, "--store="+redis.URL(), unhurried)
	for user := range users { // up to the limit
		for range 500 {
			a, err := n.ask(t.Context(), "user", fmt.Sprint(user))
			if err != nil || a.Degraded {
				t.Fatalf("%+v, %v", a, err)
			}
			if !a.Allowed {
				break
			}
			admitted[user].Add(1)
		}
	}
	used := n.usage(t)
	lost := int64(0)
	for user := range users {
		got, least := used[fmt.Sprint("user=", user)], admitted[user].Load()
		if got < least || got > least+unknown[user].Load() || got != 400 {
			t.Errorf("user %d used %d, admitted %d and %d without an answer, limit 400", user, got, least, unknown[user].Load())
		}
		lost += unknown[user].Load()
	}
	t.Logf("%d requests had no answer", lost)
	if events := strings.Fields(redis.Do("ZRANGE", "stint:events:order", "0", "-1")); len(events) != 2*users {
		t.Errorf("%d events, want %d: %q", len(events), 2*users, events)
	}
}

// The histories in memory stay over a restart with --state.
func TestUsageOverRestart(t *testing.T) {
	state := "--state=" + filepath.Join(t.TempDir(), "state")
	n := startNode(t, usageRules, state)
	for range 7 {
		if a, err := n.ask(t.Context(), "user", "1"); err != nil || !a.Allowed {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	n.ended = true
	if err := n.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-n.process.ended; err != nil {
		t.Fatalf("%v\n%s", err, n.log())
	}
	n = startNode(t, usageRules, state)
	if a, err := n.ask(t.Context(), "user", "1"); err != nil || !a.Allowed {
		t.Fatalf("%+v, %v", a, err)
	}
	if used := n.usage(t); used["user=1"] != 8 {
		t.Errorf("%v", used)
	}
}
