package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// unhurried gives a store so long for a decision that no machine is too slow; for tests in which
// nothing but the store may decide.
const unhurried = "--store-timeout=20s"

// node is a stint serve, in a process of its own.
type node struct {
	http, admin string // URLs
	grpc        string // HOST:PORT
	client      *http.Client
	log         func() string // what it has written so far

	process *server
	ended   bool // as it was told to
}

// startNode runs stint serve with rules until the test ends.
func startNode(t testing.TB, rules string, flags ...string) *node {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s := new(server)
	flags = append([]string{"serve", "--http=127.0.0.1:0", "--grpc=127.0.0.1:0", "--admin=127.0.0.1:0", "--rules=" + file}, flags...)
	if err := s.run(dir, []string{"PATH=" + os.Getenv("PATH")}, flags); err != nil {
		t.Fatal(err)
	}
	// A service closes a connection that says nothing in its first five seconds; a client that
	// dialed one it did not need after all must not send on it just then.
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 2 * time.Second}
	n := &node{client: &http.Client{Transport: transport, Timeout: patience}, log: s.text, process: s}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if n.ended {
			return
		}
		if err := s.cmd.Process.Kill(); err != nil {
			t.Errorf("the node ended by itself: %v\n%s", err, s.text())
		}
		<-s.ended //nolint:errcheck // it was killed
	})
	for range 3 {
		found := address.FindStringSubmatch(s.await(t, address))
		switch found[1] {
		case "http":
			n.http = "http://" + found[2]
		case "admin":
			n.admin = "http://" + found[2]
		default:
			n.grpc = found[2]
		}
	}
	return n
}

// answer is what a caller is told, and when.
type answer struct {
	at, took          time.Duration // at: since the load began
	key               string
	status            int
	Allowed, Degraded bool
}

// ask puts one request of a user to the rule of a key; or, all or none, of several users.
func (n *node) ask(ctx context.Context, key string, users ...string) (answer, error) {
	var body strings.Builder
	body.WriteString(`{"domain":"api","descriptors":[`)
	for i, user := range users {
		if i > 0 {
			body.WriteString(",")
		}
		fmt.Fprintf(&body, `{"entries":[{"key":%q,"value":%q}]}`, key, user)
	}
	body.WriteString("]}")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.http+"/v1/check", strings.NewReader(body.String()))
	if err != nil {
		return answer{}, err
	}
	began := time.Now()
	resp, err := n.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	a := answer{took: time.Since(began), key: key, status: resp.StatusCode}
	if err == nil && a.status == http.StatusOK {
		err = json.Unmarshal(data, &a)
	}
	return a, err
}

// metric returns what a metric of the node shows.
func (n *node) metric(t testing.TB, name string) float64 {
	t.Helper()
	resp, err := n.client.Get(n.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// most is how many requests a caller of a load makes, so that no load goes on for ever.
const most = 20_000

// load are callers that ask nodes again and again.
type load struct {
	t       testing.TB
	began   time.Time
	stop    atomic.Bool
	callers sync.WaitGroup
	mu      sync.Mutex // guards what follows
	answers []answer
}

// drive lets so many callers ask each node, one time after the other with a pause between,
// for keys in turn, each for a user of 50.
func drive(t testing.TB, nodes []*node, callers int, pause time.Duration, keys ...string) *load {
	l := &load{t: t, began: time.Now()}
	t.Cleanup(func() { l.end() })
	for _, n := range nodes {
		for range callers {
			l.callers.Go(func() {
				tick := time.NewTicker(pause)
				defer tick.Stop()
				for i := 0; i < most && !l.stop.Load(); i++ {
					l.ask(n, keys[i%len(keys)], fmt.Sprint("user", i%50))
					<-tick.C
				}
			})
		}
	}
	return l
}

func (l *load) ask(n *node, key, user string) {
	at := time.Since(l.began)
	a, err := n.ask(context.Background(), key, user)
	if err != nil {
		l.t.Error(err)
		l.stop.Store(true)
		return
	}
	a.at = at
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
}

// end stops the callers and returns what they were told, in order.
func (l *load) end() []answer {
	l.stop.Store(true)
	l.callers.Wait()
	slices.SortFunc(l.answers, func(a, b answer) int { return int(a.at - b.at) })
	return l.answers
}

// row is how many answers in a row the store has to decide to count as being there.
const row = 200

// settle waits until the store has decided so many requests in a row, and returns how long
// after a moment that began.
func (l *load) settle(from time.Duration) time.Duration {
	l.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		if at, ok := l.decided(from); ok {
			return at - from
		}
		select {
		case <-tick.C:
		case <-end:
			l.t.Fatal("the store does not decide again")
		}
	}
}

// decided returns when, after a moment, a row of answers began that the store decided.
func (l *load) decided(from time.Duration) (began time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, a := range l.answers {
		switch {
		case a.at < from:
		case a.Degraded:
			n = 0
		default:
			if n++; n == 1 {
				began = a.at
			}
			if n == row {
				return began, true
			}
		}
	}
	return 0, false
}

// noError fails the test for a request that was answered with anything but a decision.
func noError(t testing.TB, answers []answer) {
	t.Helper()
	for _, a := range answers {
		if a.status != http.StatusOK {
			t.Fatalf("an answer with status %d: %+v", a.status, a)
		}
	}
}

// p99 returns what 99 of 100 answers took at most, of those from a time to another.
func p99(answers []answer, from, to time.Duration) time.Duration {
	var took []time.Duration
	for _, a := range answers {
		if from <= a.at && a.at < to {
			took = append(took, a.took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
