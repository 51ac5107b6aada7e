package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"stint/internal/testkit"
)

// durableRules have a limit that must survive a crash.
const durableRules = `
domain: api
descriptors:
  - key: user
    rate_limit: {requests: 200, per: 366d, on_store_failure: deny, durable: true, usage: 1}
`

// Killed nodes lose no durable take that was admitted: all together, exactly the limit passes or less,
// by what was charged and not answered. Saves of the state file, during which a node may be killed, change
// nothing.
func TestKilledNodesLoseNoDurableTake(t *testing.T) {
	const users, callers = 4, 8
	kills := 6
	if testing.Short() {
		kills = 3
	}
	state := filepath.Join(t.TempDir(), "counts")
	begin := func() *node {
		return startNode(t, durableRules, "--state="+state, "--state-interval=20ms")
	}
	var mu sync.Mutex
	admitted, unanswered := map[string]int{}, map[string]int{}
	load := func(n *node) *sync.WaitGroup {
		all := new(sync.WaitGroup)
		for caller := range callers {
			all.Go(func() {
				user := fmt.Sprint("u", caller%users)
				for {
					a, err := n.ask(t.Context(), "user", user)
					mu.Lock()
					switch {
					case err != nil:
						unanswered[user]++
					case a.Allowed:
						admitted[user]++
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		return all
	}
	total := func() (sum int) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range admitted {
			sum += n
		}
		return sum
	}
	for kill := range kills {
		n := begin()
		all := load(n)
		testkit.Until(t, "takes are admitted", func() bool { return total() >= (kill+1)*users*200/(kills+2) })
		testkit.Must(t, n.process.cmd.Process.Kill())
		<-n.process.ended //nolint:errcheck // it was killed
		n.ended = true
		all.Wait()
	}
	n := begin()
	for user := range users {
		name := fmt.Sprint("u", user)
		for range 400 {
			a, err := n.ask(t.Context(), "user", name)
			testkit.Must(t, err)
			if !a.Allowed {
				break
			}
			mu.Lock()
			admitted[name]++
			mu.Unlock()
		}
		mu.Lock()
		if got := admitted[name]; got > 200 || got < 200-unanswered[name] {
			t.Errorf("%s: %d admitted, with %d unanswered, and the limit is 200", name, got, unanswered[name])
		}
		mu.Unlock()
		if used := n.usage(t)["user="+name]; used != 200 {
			t.Errorf("%s: the usage is %d, and 200 were charged", name, used)
		}
	}
	if losses := n.metric(t, "stint_durable_losses_total"); losses != 0 {
		t.Errorf("%v losses", losses)
	}
	testkit.Until(t, "the state is saved", func() bool {
		_, err := os.Stat(state)
		return err == nil
	})
}
