package memcached_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/memcached"
	"stint/store/memcached/meta"
)

var (
	window = stint.MustLimit(stint.Spec{Requests: 5, Per: 24 * time.Hour})
	bucket = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 5, Per: 24 * time.Hour})
)

// decide decides takes within a time.
func decide(t *testing.T, s stint.Store, within time.Duration, takes ...stint.Take) ([]stint.Decision, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	call := stint.Call{Takes: takes}
	err := s.Decide(ctx, &call)
	return call.Results, err
}

// After an error that is not ErrUnknown nothing was charged. A frozen server makes a charge unknown; a
// server that is away was never asked.
func TestUnknown(t *testing.T) {
	server := testkit.StartMemcached(t)
	for _, limit := range []*stint.Limit{window, bucket} {
		s := open(t, server)
		take := stint.Take{Key: "k", Limit: limit, Cost: 1}
		_, err := decide(t, s, 10*time.Second, take)
		testkit.Must(t, err)
		server.Freeze()
		_, err = decide(t, s, 50*time.Millisecond, take)
		if sent := limit == window; errors.Is(err, stint.ErrUnknown) != sent || !errors.Is(err, context.DeadlineExceeded) { // the bucket was only read
			t.Errorf("%v, frozen: %v", limit.Algorithm(), err)
		}
		if problem, ok := errors.AsType[*memcached.Error](err); !ok || !strings.Contains(problem.Hint, "--store-timeout") {
			t.Errorf("%v, frozen: %v", limit.Algorithm(), err)
		}
		server.Thaw()
		left := map[*stint.Limit]int64{window: 3, bucket: 4}[limit]
		if d, err := decide(t, s, 10*time.Second, stint.Take{Key: "k", Limit: limit}); err != nil || d[0].Remaining != left {
			t.Errorf("%v, thawed: %+v, %v, want %d remaining", limit.Algorithm(), d, err, left)
		}
		server.Stop()
		testkit.Until(t, "the loss of the connection is known", func() bool {
			_, err = decide(t, s, time.Second, take)
			return err != nil && !errors.Is(err, stint.ErrUnknown)
		})
		server.Restart()
		if d, err := decide(t, s, 10*time.Second, take); err != nil || d[0].Remaining != 4 {
			t.Errorf("%v, started again: %+v, %v", limit.Algorithm(), d, err)
		}
	}
}

// An answer that is lost on the way makes the charge of an item unknown too, and it is never sent again.
func TestUnknownWrite(t *testing.T) {
	server := testkit.StartMemcached(t)
	proxy := testkit.StartProxy(t, server.Addr, testkit.ProxyOptions{Delay: 30 * time.Millisecond})
	s, err := memcached.Open("memcached://"+proxy.Addr(), memcached.Options{Connections: 1})
	testkit.Must(t, err)
	t.Cleanup(s.Close)
	_, err = decide(t, s, 10*time.Second, stint.Take{Key: "other", Limit: bucket, Cost: 1})
	testkit.Must(t, err)
	_, err = decide(t, s, 90*time.Millisecond, stint.Take{Key: "k", Limit: bucket, Cost: 1}) // 60 ms to read, 60 to write
	if !errors.Is(err, stint.ErrUnknown) {
		t.Errorf("%v", err)
	}
	testkit.Until(t, "the write has arrived", func() bool {
		d, err := decide(t, s, 10*time.Second, stint.Take{Key: "k", Limit: bucket})
		return err == nil && d[0].Remaining == 4
	})
}

// A value of somebody else fails only the takes of its key, and those that are decided as one with them.
func TestUndecodable(t *testing.T) {
	server := testkit.StartMemcached(t)
	s := open(t, server)
	now := stint.At(time.Now())
	for _, limit := range []*stint.Limit{window, bucket} {
		server.Do("set " + s.NameForTest(limit, "bad", now) + " 0 100 5\r\nhello")
		bad, good := stint.Take{Key: "bad", Limit: limit, Cost: 1}, stint.Take{Key: "good", Limit: limit, Cost: 1}
		apart := stint.Take{Key: "apart", Limit: limit, Cost: 1, Independent: true}
		for n, takes := range [][]stint.Take{{bad}, {good, bad, apart}, {apart, good, bad}} {
			results, err := decide(t, s, 10*time.Second, takes...)
			corrupt, ok := errors.AsType[*stint.CorruptState](err)
			if !ok || len(corrupt.Takes) != 1 || takes[corrupt.Takes[0]].Key != "bad" || errors.Is(err, stint.ErrUnknown) {
				t.Fatalf("%v, call %d: %v", limit.Algorithm(), n, err)
			}
			for i := range takes {
				if takes[i].Independent && (!results[i].Allowed || results[i].Remaining != int64(5-n)) {
					t.Errorf("%v, call %d: the independent take: %+v", limit.Algorithm(), n, results[i])
				}
			}
		}
		if d, err := decide(t, s, 10*time.Second, stint.Take{Key: "good", Limit: limit}); err != nil || d[0].Remaining != 5 {
			t.Errorf("%v: charged beside a key that cannot be read: %+v, %v", limit.Algorithm(), d, err)
		}
	}
}

// A server that is full refuses what does not fit, and the error says what to do.
func TestFull(t *testing.T) {
	server := testkit.StartMemcached(t, "-m", "2")
	s := open(t, server)
	for i := range 4000 {
		server.Do("set filler" + strings.Repeat("x", i%8) + string(rune('a'+i%26)) + time.Duration(i).String() + " 0 0 1000\r\n" + strings.Repeat("x", 1000))
	}
	log := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 2000, Per: 24 * time.Hour})
	var err error
	for i := range 2000 {
		_, err = decide(t, s, 10*time.Second, stint.Take{Key: "k", Limit: log, Cost: 1})
		if i > 10 && err != nil {
			break
		}
	}
	checkFull := func(err error) {
		t.Helper()
		problem, ok := errors.AsType[*memcached.Error](err)
		if !ok || !strings.Contains(strings.ToLower(problem.Problem), "out of memory") || !strings.Contains(problem.Hint, "more memory") || errors.Is(err, stint.ErrUnknown) {
			t.Errorf("%v: %+v", err, problem)
		}
	}
	checkFull(err)
	for i := range 100_000 { // counters are smaller than the log: there may still be room for some
		if _, err = decide(t, s, 10*time.Second, stint.Take{Key: stint.Key(strings.Repeat("k", 150) + strconv.Itoa(i)), Limit: window, Cost: 1}); err != nil {
			break
		}
	}
	checkFull(err)
}

// A state that would not fit into an item is an error before it is sent: the server would forget the old
// one.
func TestTooLarge(t *testing.T) {
	server := testkit.StartMemcached(t)
	s := open(t, server)
	log := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 1 << 20, Per: stint.MaxPer})
	spec := log.Spec()
	value := transaction.AppendSpec([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0}, &spec)
	var st stint.State
	at := stint.At(time.Now().Add(-5 * 24 * time.Hour))
	for size := len(value) + 16; size+4 <= 1<<20-1024; size += 4 { // an entry after a second has four bytes
		at += 1_000_000
		log.Take(&st, at, 1)
	}
	value, err := st.AppendBinary(value)
	testkit.Must(t, err)
	c := meta.New(meta.Options{Network: "tcp", Address: server.Addr})
	t.Cleanup(c.Close)
	replies, err := c.Do(t.Context(), 0, meta.Set(s.NameForTest(log, "k", at), value, 0, 0))
	if err != nil || replies[0].Status != meta.Done {
		t.Fatalf("%d bytes: %+v, %v", len(value), replies, err)
	}
	used := int64(-1)
	for range 10 {
		at += 1_000_000
		call := stint.Call{At: at, Takes: []stint.Take{{Key: "k", Limit: log, Cost: 1}}}
		if err = s.Decide(t.Context(), &call); err != nil {
			break
		}
		used = call.Results[0].Limit - call.Results[0].Remaining
	}
	if problem, ok := errors.AsType[*memcached.Error](err); !ok || !strings.Contains(problem.Problem, "more than an item") || errors.Is(err, stint.ErrUnknown) {
		t.Fatalf("with %d used: %v", used, err)
	}
	tooLarge, other := stint.Take{Key: "k", Limit: log, Cost: 1, Independent: true}, stint.Take{Key: "other", Limit: window, Cost: 1, Independent: true}
	for i, takes := range [][]stint.Take{{tooLarge, other}, {other, tooLarge}} { // what was charged before an error makes it unknown
		if err := s.Decide(t.Context(), &stint.Call{At: at, Takes: takes}); err == nil || errors.Is(err, stint.ErrUnknown) != (i == 1) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	look := stint.Call{At: at, Takes: []stint.Take{{Key: "k", Limit: log}}}
	testkit.Must(t, s.Decide(t.Context(), &look))
	if d := look.Results[0]; d.Limit-d.Remaining < 200_000 {
		t.Errorf("the old state is gone: %+v", d)
	}
}

// URLs and namespaces that cannot be meant are refused with a hint, and no error shows a password.
func TestOpenRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"memcached://":                       "without a host",
		"memcached://a:port":                 "cannot be read",
		"memcached://a/1":                    "with a path",
		"memcached://:hunter2@a":             "without a user",
		"memcached://u:hunter2@a?db=1":       `unknown parameter "db"`,
		"memcached://u:hunter2@a?ca=x":       "not encrypted",
		"memcacheds://a?ca=/none":            "no certificates",
		"memcacheds://a?cert=/none":          "only one of cert and key",
		"memcacheds://a?cert=/none&key=/no":  "cannot be used",
		"memcached+unix://a/b":               "without its path",
		"memcached://u:hunter2@a#x":          "cannot be read",
		"memcachedx://a":                     "unknown kind",
		"memcached://a?password_file=/a/b/c": "without a user",
	} {
		_, err := memcached.Open(url, memcached.Options{})
		if fault, ok := errors.AsType[*memcached.ConfigError](err); !ok || !strings.Contains(fault.Problem, want) || fault.Hint == "" || strings.Contains(fault.Error()+fault.Hint, "hunter2") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	for _, namespace := range []string{"a b", "a:b", strings.Repeat("n", 65)} {
		if _, err := memcached.Open("memcached://a", memcached.Options{Namespace: namespace}); err == nil {
			t.Errorf("namespace %q is allowed", namespace)
		}
	}
	list, err := memcached.Servers("memcached://u:hunter2@B:1, a?ca=")
	if err != nil || len(list) != 2 || list[0].Name != "b:1" || list[1].Name != "a:11211" || list[1].URL != "memcached://u:hunter2@a?ca=" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := memcached.Servers("memcached://a,a:11211"); err == nil {
		t.Error("a server is named twice")
	}
	if got := memcached.RedactURL("memcached://u:hunter2@a,b"); got != "memcached://a:11211,b:11211" {
		t.Error(got)
	}
}

// A listener whose answers belong to other commands admits nothing, and the error says so.
func TestOtherAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for lines := bufio.NewScanner(c); lines.Scan(); {
			if _, err := c.Write([]byte("NS\r\n")); err != nil {
				return
			}
		}
	})
	s, err := memcached.Open("memcached://"+l.Addr().String(), memcached.Options{Connections: 1})
	testkit.Must(t, err)
	for _, limit := range []*stint.Limit{window, bucket} {
		_, err := decide(t, s, 10*time.Second, stint.Take{Key: "k", Limit: limit, Cost: 1})
		if problem, ok := errors.AsType[*memcached.Error](err); !ok || problem.Problem != "the server answers what does not belong to the command" {
			t.Errorf("%v: %v", limit.Algorithm(), err)
		}
	}
	s.Close()
	testkit.Must(t, l.Close())
	served.Wait()
}

// Takes with grants are refused, as the store keeps no histories.
func TestRefusesGrants(t *testing.T) {
	s, err := memcached.Open("memcached://127.0.0.1:1", memcached.Options{})
	testkit.Must(t, err)
	defer s.Close()
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 1, Per: time.Hour})
	call := stint.Call{Takes: []stint.Take{{Key: "a", Limit: limit, Cost: 1, Handling: &stint.Handling{Meter: &limits.Meter{Rollover: 1}}}}}
	if err := s.Decide(t.Context(), &call); !errors.Is(err, limits.ErrGrants) {
		t.Errorf("error %v", err)
	}
}
