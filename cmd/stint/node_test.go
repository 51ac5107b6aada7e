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

// unhurried is a store timeout that is long enough for any machine, for tests in which only the
// store may decide.
const unhurried = "--store-timeout=20s"

// node is a stint serve in its own process.
type node struct {
	http, admin string // URLs
	grpc        string // HOST:PORT
	client      *http.Client
	log         func() string // the log so far

	process *server
	ended   bool // the test stopped it
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
	// A service closes a connection that has no request in its first five seconds. So the client
	// closes unused connections before it could send on them at that moment.
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

// answer is the response to a caller, with its time.
type answer struct {
	at, took          time.Duration // at: since the load began
	key               string
	status            int
	Allowed, Degraded bool
}

// ask sends one request for one user, or for several users all or none, to the rule of a key.
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

// metric returns the value of a metric of the node.
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

// most is how many requests each caller of a load sends at most, so that every load ends.
const most = 20_000

// load is a set of callers that send requests to nodes again and again.
type load struct {
	t       testing.TB
	began   time.Time
	stop    atomic.Bool
	callers sync.WaitGroup
	mu      sync.Mutex // guards the fields below
	answers []answer
}

// drive starts callers for each node. Each sends one request after the other, with a pause between,
// for the keys in turn, each for one of 50 users.
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

// end stops the callers and returns the answers in order.
func (l *load) end() []answer {
	l.stop.Store(true)
	l.callers.Wait()
	slices.SortFunc(l.answers, func(a, b answer) int { return int(a.at - b.at) })
	return l.answers
}

// row is how many consecutive answers the store must decide to count as available.
const row = 200

// settle waits until the store has decided that many consecutive requests after from, and returns
// how long after from they began.
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

// decided returns when the first row of answers of the store after from began.
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

// noError fails the test if a response was no decision.
func noError(t testing.TB, answers []answer) {
	t.Helper()
	for _, a := range answers {
		if a.status != http.StatusOK {
			t.Fatalf("an answer with status %d: %+v", a.status, a)
		}
	}
}

// p99 returns the time that 99 of 100 answers took at most, among those between from and to.
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
