package main

import (
	"testing"
	"time"

	"stint/internal/testkit"
)

// slack is how many times longer than promised something may take on a busy machine. The test
// prints the measured times.
const slack = 20

// pass waits for d, while real callers and servers run.
func pass(d time.Duration) {
	time.Sleep(d) // a fault, or the time before it, lasts for d
}

// policies has a limit for each failure policy, too large to be used up.
const policies = `
domain: api
descriptors:
  - key: free
    rate_limit: {requests: 1000000, per: 366d}
  - key: login
    rate_limit: {requests: 1000000, per: 366d, on_store_failure: deny}
  - key: part
    rate_limit: {requests: 1000000, per: 366d, on_store_failure: local, local_share: 50%, nodes: 2}
`

// Redis is frozen under load. From the first second on, 99 of 100 requests are answered by their
// failure policies within 25 ms more than before, and logins are denied. The process does not grow.
// Two seconds after Redis goes on, it decides all requests again.
func TestNodeOfFrozenRedis(t *testing.T) {
	server := testkit.StartRedis(t)
	flags := []string{"--store=" + server.URL()}
	if testkit.Race {
		flags = append(flags, "--store-timeout=100ms") // a busy machine often needs that, even while the store runs
	}
	n := startNode(t, policies, flags...)
	frozen := 10 * time.Second
	if testing.Short() {
		frozen = 1500 * time.Millisecond
	}
	l := drive(t, []*node{n}, 16, 10*time.Millisecond, "free", "login", "part")
	pass(time.Second)
	calm := l.settle(500*time.Millisecond) + 500*time.Millisecond
	goroutines, bytes := n.metric(t, "go_goroutines"), n.metric(t, "process_resident_memory_bytes")
	from := time.Since(l.began)
	server.Freeze()
	open := time.Since(l.began) + 500*time.Millisecond // requests sent just before wait until the deadline; later ones do not wait
	pass(frozen)
	testkit.Until(t, "each key is asked for", func() bool { return len(l.asked(open, time.Since(l.began))) == 3 })
	more, grown := n.metric(t, "go_goroutines")-goroutines, n.metric(t, "process_resident_memory_bytes")-bytes
	to := time.Since(l.began)
	server.Thaw()
	back := l.settle(to)
	answers := l.end()
	noError(t, answers)

	byPolicy := map[string]bool{"free": true, "login": false, "part": true}
	for key, list := range l.asked(open, to) {
		for _, a := range list {
			if !a.Degraded || a.Allowed != byPolicy[key] {
				t.Fatalf("not by the policy: %+v", a)
			}
		}
	}
	before, first, rest := p99(answers, calm, from), p99(answers, from, from+time.Second), p99(answers, from+time.Second, to)
	t.Logf("p99 over HTTP before %v, in the first second %v, later %v; %.0f more goroutines, %.0f KiB more memory; back %v after SIGCONT; %d requests",
		before, first, rest, more, grown/1024, back.Round(time.Millisecond), len(answers))
	if added := max(first, rest) - before; added > slack*25*time.Millisecond {
		t.Errorf("p99 is %v more than before", added)
	}
	if more > 100 || grown > 32<<20 {
		t.Errorf("%.0f goroutines and %.0f bytes more than before", more, grown)
	}
	if back > slack*2*time.Second {
		t.Errorf("back after %v", back)
	}
}

// asked returns the answers to requests that were sent after from and answered before to, by key.
func (l *load) asked(from, to time.Duration) map[string][]answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	byKey := map[string][]answer{}
	for _, a := range l.answers {
		if from <= a.at && a.at+a.took < to {
			byKey[a.key] = append(byKey[a.key], a)
		}
	}
	return byKey
}

// Redis loses its scripts again and again while eight nodes use up a limit. No request fails, and
// exactly the limit passes.
func TestNodesOfForgetfulRedis(t *testing.T) {
	t.Parallel()
	server := testkit.StartRedis(t)
	nodes := startNodes(t, quota, server.URL(), unhurried)
	done, flushed := make(chan struct{}), make(chan int)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				server.Do("SCRIPT", "FLUSH")
			case <-done:
				flushed <- i
				return
			}
		}
	}()
	passed := askAll(t, nodes, "token_bucket", 1)
	close(done)
	times := <-flushed
	t.Logf("%d passed while scripts were flushed %d times", passed[0], times)
	if passed[0] != 1000 || times == 0 {
		t.Errorf("%d passed of 1000", passed[0])
	}
}
