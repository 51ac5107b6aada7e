package recordlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/records/replication"
	"stint/store/redis/connect"
)

func open(t testing.TB, url string) *Log {
	t.Helper()
	l, err := Open(url, "shop")
	testkit.Must(t, err)
	t.Cleanup(l.Close)
	return l
}

// add appends an entry with writes. The head must be that before it.
func add(t testing.TB, l *Log, after replication.Head, forget bool, writes ...replication.Write) replication.Head {
	t.Helper()
	e := after.Next(replication.Encode(writes, forget))
	head, err := l.Append(t.Context(), after, &e, writes, forget)
	testkit.Must(t, err)
	if head != e.Head() {
		t.Fatalf("the head is %v, want %v", head, e.Head())
	}
	return head
}

func set(key, value string) replication.Write {
	return replication.Write{Key: []byte(key), Value: []byte(value)}
}

func del(key string) replication.Write { return replication.Write{Key: []byte(key), Deleted: true} }

func read(t testing.TB, l *Log, after uint64) ([]replication.Entry, replication.Head) {
	t.Helper()
	entries, head, err := l.Read(t.Context(), after, 0)
	testkit.Must(t, err)
	return entries, head
}

func stateOf(t testing.TB, l *Log) map[string]string {
	t.Helper()
	state := map[string]string{}
	testkit.Must(t, l.State(t.Context(), func(writes []replication.Write) error {
		for _, w := range writes {
			state[string(w.Key)] = string(w.Value)
		}
		return nil
	}))
	return state
}

// walk uses all that a log can do.
func walk(t *testing.T, l *Log) {
	t.Helper()
	if entries, head := read(t, l, 0); head != (replication.Head{}) || len(entries) != 0 {
		t.Fatalf("%v, %v in an empty log", entries, head)
	}
	one := add(t, l, replication.Head{}, false, set("a\x00b", "1"), set("c", ""), set("d", "4"))
	two := add(t, l, one, false, del("c"), set("a\x00b", "2"), del("none"))
	entries, head := read(t, l, 0)
	if len(entries) != 2 || head != two || entries[0].Head() != one || one.Next(entries[1].Data).Hash != two.Hash {
		t.Fatalf("%v, %v", entries, head)
	}
	if got := stateOf(t, l); !maps.Equal(got, map[string]string{"a\x00b": "2", "d": "4"}) {
		t.Errorf("the state is %v", got)
	}
	for _, after := range []replication.Head{{}, one, {Number: 2}} { // not the head
		e := after.Next([]byte("x"))
		if head, err := l.Append(t.Context(), after, &e, nil, false); err != nil || head != two {
			t.Errorf("after %v: %v, %v", after, head, err)
		}
	}
	add(t, l, two, true, set("e", "5"))
	if entries, _ := read(t, l, 0); len(entries) != 1 || entries[0].Number != 3 {
		t.Errorf("%v after an entry that forgets", entries)
	}
	nodes, server, err := l.Beat(t.Context(), replication.Node{Name: "n1", Revision: 3})
	if age := time.Since(server); age < -time.Minute || age > time.Minute {
		t.Errorf("the time of the server is %v", server)
	}
	if err != nil || len(nodes) != 1 || nodes[0].Name != "n1" || nodes[0].Revision != 3 || time.Since(nodes[0].Seen) > time.Minute {
		t.Errorf("%v, %v", nodes, err)
	}
	_, head = read(t, l, 0)
	next := replication.Head{Number: 9, Hash: replication.Hash{9}}
	done, err := l.Restore(t.Context(), head, next, pages(map[string]string{"k": "v"}))
	if got := stateOf(t, l); err != nil || !done || !maps.Equal(got, map[string]string{"k": "v"}) {
		t.Errorf("%v, %v, %v", done, err, got)
	}
	if entries, head := read(t, l, 0); head != next || len(entries) != 0 {
		t.Errorf("%v, %v", entries, head)
	}
	add(t, l, next, false, set("k", "w"))
}

// pages are a state in pages of many sizes.
func pages(state map[string]string) iter.Seq2[[]replication.Write, error] {
	return func(yield func([]replication.Write, error) bool) {
		var page []replication.Write
		n := 1
		for key, value := range state {
			if page = append(page, set(key, value)); len(page) >= n {
				if !yield(page, nil) {
					return
				}
				page, n = nil, n*7
			}
		}
		yield(page, nil)
	}
}

func TestLog(t *testing.T) {
	t.Run("server", func(t *testing.T) { walk(t, open(t, testkit.StartRedis(t).URL())) })
	t.Run("database", func(t *testing.T) { walk(t, open(t, testkit.StartRedis(t).URL()+"/3")) })
	t.Run("cluster", func(t *testing.T) {
		t.Parallel() // mostly servers that find each other
		cluster := testkit.StartRedisCluster(t, 3)
		cluster.Timeout(testkit.Steady)
		walk(t, open(t, cluster.URL()))
	})
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		sentinels := testkit.StartSentinels(t, 1)
		sentinels.Timeout(testkit.Steady)
		walk(t, open(t, sentinels.URL()))
	})
}

// Read waits for an entry, and returns as soon as there is one.
func TestReadWaits(t *testing.T) {
	server := testkit.StartRedis(t)
	reader, writer := open(t, server.URL()), open(t, server.URL())
	one := add(t, writer, replication.Head{}, false, set("a", "1"))
	began := time.Now()
	if entries, head, err := reader.Read(t.Context(), 1, 300*time.Millisecond); err != nil || len(entries) != 0 || head != one || time.Since(began) < 300*time.Millisecond {
		t.Errorf("%v, %v, %v after %v", entries, head, err, time.Since(began))
	}
	got := make(chan replication.Head, 1)
	go func() {
		_, head, _ := reader.Read(t.Context(), 1, time.Minute) // the head is wrong after an error
		got <- head
	}()
	testkit.Until(t, "the reader waits", func() bool { return strings.Contains(server.Do("INFO", "clients"), "blocked_clients:1") })
	began = time.Now()
	two := add(t, writer, one, false, set("a", "2"))
	if head := <-got; head != two || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", head, time.Since(began))
	}
}

// The log keeps a bounded number of entries, and of bytes.
func TestBounds(t *testing.T) {
	for _, bounds := range []struct{ entries, bytes int }{{10, 1 << 20}, {1000, 10 * 1010}} {
		server := testkit.StartRedis(t)
		l := open(t, server.URL())
		l.maxEntries, l.maxBytes = bounds.entries, bounds.bytes
		var head replication.Head
		value := strings.Repeat("v", 1000)
		for range 25 {
			head = add(t, l, head, false, set("a", value))
			if entries, _ := read(t, l, 0); len(entries) > 10 {
				t.Fatalf("%v: %d entries", bounds, len(entries))
			}
		}
		if entries, _ := read(t, l, 3); len(entries) < 8 || entries[len(entries)-1].Number != 25 {
			t.Errorf("%v: %d entries are left", bounds, len(entries))
		}
		// One entry that is larger than the bound is kept.
		head = add(t, l, head, false, set("a", strings.Repeat("v", 20_000)))
		add(t, l, head, false, set("b", "1"))
		if entries, _ := read(t, l, 25); len(entries) == 0 || entries[len(entries)-1].Number != 27 {
			t.Errorf("%v: %v", bounds, len(entries))
		}
	}
}

// Of many callers that append after the same head, one succeeds.
func TestOneAppends(t *testing.T) {
	server := testkit.StartRedis(t)
	var head replication.Head
	for round := range 20 {
		var won atomic.Int32
		var callers sync.WaitGroup
		heads := make([]replication.Head, 8)
		for i := range heads {
			l := open(t, server.URL())
			callers.Go(func() {
				e := head.Next(fmt.Append(nil, round, i))
				got, err := l.Append(t.Context(), head, &e, []replication.Write{set("a", fmt.Sprint(i))}, false)
				if err != nil {
					t.Error(err)
				}
				if heads[i] = got; got == e.Head() {
					won.Add(1)
				}
			})
		}
		callers.Wait()
		if won.Load() != 1 || slices.ContainsFunc(heads, func(h replication.Head) bool { return h != heads[0] }) {
			t.Fatalf("%d won, heads %v", won.Load(), heads)
		}
		head = heads[0]
	}
}

// Of several nodes that restore an empty server, one does. Nobody appends meanwhile.
func TestOneRestores(t *testing.T) {
	server := testkit.StartRedis(t)
	state := map[string]string{}
	for i := range 3000 {
		state[fmt.Sprint("key-", i)] = strings.Repeat("v", i%50)
	}
	var won atomic.Int32
	var callers sync.WaitGroup
	head := replication.Head{Number: 7, Hash: replication.Hash{7}}
	for range 4 {
		l := open(t, server.URL())
		callers.Go(func() {
			done, err := l.Restore(t.Context(), replication.Head{}, head, pages(state))
			if err != nil {
				t.Error(err)
			}
			if done {
				won.Add(1)
			}
		})
	}
	callers.Wait()
	l := open(t, server.URL())
	if _, got := read(t, l, 0); won.Load() != 1 || got != head || !maps.Equal(stateOf(t, l), state) {
		t.Errorf("%d won, the head is %v, %d keys", won.Load(), got, len(stateOf(t, l)))
	}
	add(t, l, head, false, set("a", "1"))

	// While one restores, appending is refused, and so is another restore.
	other := open(t, server.URL())
	stop := errors.New("stop")
	_, head = read(t, l, 0)
	_, err := l.Restore(t.Context(), head, head, func(yield func([]replication.Write, error) bool) {
		yield([]replication.Write{set("a", "2")}, nil)
		e := head.Next([]byte("x"))
		if _, err := other.Append(t.Context(), head, &e, nil, false); !errors.Is(err, replication.ErrRestoring) || errors.Is(err, stint.ErrUnknown) {
			t.Errorf("append meanwhile: %v", err)
		}
		if done, err := other.Restore(t.Context(), head, head, pages(state)); done || err != nil {
			t.Errorf("restore meanwhile: %v, %v", done, err)
		}
		yield(nil, stop)
	})
	if !errors.Is(err, stop) {
		t.Error(err)
	}
	add(t, l, head, false, set("a", "3")) // the restore that failed has ended
	if done, err := other.Restore(t.Context(), head, head, pages(state)); done || err != nil {
		t.Errorf("restore with an old head: %v, %v", done, err)
	}
	if got := stateOf(t, l); got["a"] != "3" {
		t.Errorf("a is %q", got["a"])
	}
	if left := server.Do("KEYS", "*restore*"); left != "" {
		t.Errorf("left over: %s", left)
	}
}

// A log whose state was deleted or evicted counts as lost: no node reads a part of the state as if it
// were all.
func TestStateLost(t *testing.T) {
	server := testkit.StartRedis(t)
	l := open(t, server.URL())
	head := add(t, l, add(t, l, replication.Head{}, false, set("a", "1")), false, set("b", "2"))
	server.Do("DEL", "shop:{records}:state")
	e := head.Next([]byte("x"))
	if got, err := l.Append(t.Context(), head, &e, []replication.Write{set("c", "3")}, false); err != nil || got != (replication.Head{}) {
		t.Errorf("append: %v, %v", got, err)
	}
	if entries, got := read(t, l, 0); got != (replication.Head{}) || len(entries) != 0 {
		t.Errorf("%v, %v", entries, got)
	}
	state := map[string]string{"a": "1", "b": "2"}
	if done, err := l.Restore(t.Context(), replication.Head{}, head, pages(state)); !done || err != nil {
		t.Errorf("restore: %v, %v", done, err)
	}
	if _, got := read(t, l, 0); got != head || !maps.Equal(stateOf(t, l), state) {
		t.Errorf("%v, %v", got, stateOf(t, l))
	}
	server.Do("DEL", "shop:{records}:state")
	first := add(t, l, replication.Head{}, false, set("d", "4"))
	if entries, got := read(t, l, 0); got != first || len(entries) != 1 {
		t.Errorf("%v, %v", entries, got)
	}
}

// A frozen server delays no caller for long. The answer to an append is then unknown; without a
// connection it is known that nothing was appended.
func TestFrozenServer(t *testing.T) {
	server := testkit.StartRedis(t)
	l := open(t, server.URL())
	head := add(t, l, replication.Head{}, false, set("a", "1"))
	server.Freeze()
	e := head.Next([]byte("x"))
	began := time.Now()
	_, err := l.Append(t.Context(), head, &e, nil, false)
	if took := time.Since(began); !errors.Is(err, stint.ErrUnknown) || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	began = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := l.Read(ctx, 0, time.Minute); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	server.Thaw()
	testkit.Until(t, "it answers again", func() bool {
		_, _, err := l.Read(t.Context(), 0, 0)
		return err == nil
	})
	server.Stop()
	if _, err := l.Append(t.Context(), head, &e, nil, false); err == nil {
		t.Error("no error without a server")
	}
	for range 3 {
		if _, err := l.Append(t.Context(), head, &e, nil, false); err == nil || errors.Is(err, stint.ErrUnknown) {
			t.Errorf("without a connection: %v", err)
		}
	}
}

// Values of others are an error with a hint, not a panic.
func TestForeign(t *testing.T) {
	server := testkit.StartRedis(t)
	l := open(t, server.URL())
	for _, command := range [][]string{
		{"SET", "shop:{records}:head", "x"},
		{"HSET", "shop:{records}:head", "number", "x"},
		{"HSET", "shop:{records}:head", "number", "5", "hash", "zz"},
		{"HSET", "shop:{records}:head", "number", "5"},
		{"SET", "shop:{records}:log", "x"},
		{"XADD", "shop:{records}:log", "5-1", "a", "b"},
		{"XADD", "shop:{records}:log", "5-0", "hash", "b"},
	} {
		server.Do("FLUSHALL")
		server.Do("HSET", "shop:{records}:state", "a", "1") // without it the log counts as lost
		server.Do(command...)
		_, _, err := l.Read(t.Context(), 0, 0)
		if fault, ok := errors.AsType[*connect.Error](err); !ok || fault.Hint == "" {
			t.Errorf("%q: %v", command, err)
		}
	}
}

// No error has the password.
func TestNoPasswordInErrors(t *testing.T) {
	server := testkit.StartRedis(t)
	server.Do("ACL", "SETUSER", "limits", "on", ">secret", "~*", "+@all")
	for _, url := range []string{"redis://limits:wrongsecret@" + server.Addr, "redis://limits:secret@127.0.0.1:1"} {
		_, _, err := open(t, url).Read(t.Context(), 0, 0)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
	if _, err := Open("redis://limits:secret@a,b", "shop"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// A change with many keys and one with large values fit.
func TestLargeEntries(t *testing.T) {
	l := open(t, testkit.StartRedis(t).URL())
	var many []replication.Write
	for i := range 40_000 {
		many = append(many, set(fmt.Sprint("key-", i), strings.Repeat("v", 60)))
	}
	head := add(t, l, replication.Head{}, false, many...)
	head = add(t, l, head, false, replication.Write{Key: []byte("large"), Value: bytes.Repeat([]byte{0xff, '\r', '\n'}, 1<<20)})
	if entries, got := read(t, l, 0); got != head || len(entries) != 1 || len(stateOf(t, l)) != len(many)+1 {
		t.Errorf("%d entries, %v", len(entries), got)
	}
	if entries, got := read(t, l, 1); got != head || len(entries) != 1 || entries[0].Head() != head {
		t.Errorf("%d entries, %v", len(entries), got)
	}
}
