package records

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
)

// acknowledged are the records that were written, and which change wrote each last. Every writer has
// records of its own, so that the order of its changes is known.
type acknowledged struct {
	plan    string   // of the last change that was made for certain; "" if it deleted the record
	unknown []string // of later changes whose answer was lost
}

func (a *acknowledged) may(plan string) bool {
	return plan == a.plan || slices.Contains(a.unknown, plan)
}

// disturb does one thing that may go wrong between or in nodes.
func disturb(random *rand.Rand, server *testkit.RedisServer, proxies []*testkit.TCPProxy, nodes []*sharer, locks []sync.RWMutex) {
	i := random.IntN(len(nodes))
	switch random.IntN(7) {
	case 0:
		proxies[i].Cut()
	case 1:
		proxies[i].Stall()
		testkit.Pause(300 * time.Millisecond)
		proxies[i].Resume()
	case 2: // the node stops, perhaps between the log and its own file
		proxies[i].Cut()
		locks[i].Lock()
		nodes[i].restart()
		locks[i].Unlock()
	case 3:
		server.Do("CLIENT", "KILL", "TYPE", "normal")
	case 4:
		server.Do("XTRIM", "shop:{records}:log", "MAXLEN", "2")
	case 5:
		server.Restart() // with appendonly yes and appendfsync always, nothing is lost
	case 6:
		server.Do("SCRIPT", "FLUSH")
	}
}

// Writers on three nodes make random changes, while connections are cut, nodes stop, Redis restarts and
// its log is trimmed. In the end all nodes have the same records and the same trail, and every change
// that was acknowledged.
func TestSharedHistory(t *testing.T) {
	t.Parallel()
	rounds := 40
	if testing.Short() {
		rounds = 15
	}
	server := testkit.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir())
	dir := t.TempDir()
	var nodes []*sharer
	var proxies []*testkit.TCPProxy
	for i := range 3 {
		proxies = append(proxies, testkit.StartProxy(t, server.Addr, testkit.ProxyOptions{}))
		nodes = append(nodes, share(t, "redis://"+proxies[i].Addr(), filepath.Join(dir, fmt.Sprint("node", i))))
	}
	nodes[0].write(ban)
	locks := make([]sync.RWMutex, len(nodes)) // held for writing while the node restarts
	stop := make(chan bool)
	var writers sync.WaitGroup
	made := make([][5]acknowledged, 4)
	var counts [4]struct{ made, unavailable, unknown int }
	for w := range made {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 20))
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				at := random.IntN(5)
				node, record, plan := random.IntN(len(nodes)), &made[w][at], fmt.Sprint("plan-", n)
				s := Subject{Name: fmt.Sprintf("user=%d-%d", w, at), Kind: User, Plan: plan}
				edit := Edit{Put: s}
				if record.plan != "" && len(record.unknown) == 0 && random.IntN(4) == 0 {
					edit, plan = Edit{Delete: s.ID()}, ""
				}
				c := Change{Edits: []Edit{edit}, IdempotencyKey: fmt.Sprint("writer-", w, "-", n)}
				locks[node].RLock()
				_, err := nodes[node].Apply(t.Context(), c, start)
				locks[node].RUnlock()
				switch {
				case err == nil:
					*record = acknowledged{plan: plan}
					counts[w].made++
				case errors.Is(err, stint.ErrUnknown):
					record.unknown = append(record.unknown, plan)
					counts[w].unknown++
				case errors.Is(err, ErrUnavailable):
					counts[w].unavailable++
				default:
					t.Errorf("writer %d, change %d: %v", w, n, err)
					return
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 20))
	for range rounds {
		testkit.Pause(200 * time.Millisecond)
		disturb(random, server, proxies, nodes, locks)
	}
	close(stop)
	writers.Wait()
	nodes[1].write(banned)
	agree(t, nodes...)
	for w := range made {
		for at := range made[w] {
			e, ok, err := nodes[2].Get(ID{Subjects, fmt.Sprintf("user=%d-%d", w, at)})
			testkit.Must(t, err)
			plan := ""
			if s, is := e.Record.(Subject); ok && is {
				plan = s.Plan
			}
			if !made[w][at].may(plan) {
				t.Errorf("writer %d, record %d: plan %q, want one of %v", w, at, plan, made[w][at])
			}
		}
		if counts[w].made == 0 {
			t.Errorf("writer %d made no change", w)
		}
	}
	t.Logf("%+v, revision %d", counts, nodes[0].Status(start).Revision)
}
