package records

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/testkit"
	"stint/internal/text"
	"stint/records/dbfile"
	"stint/records/replication"
	"stint/records/trail"
	"stint/store/redis/recordlog"
)

// deadline is how long a change may take until it is in force everywhere, on a busy machine.
const deadline = 5 * time.Second

// sharer is a node that shares records.
type sharer struct {
	*File
	t    testing.TB
	path string
	url  string
	log  *text.OutputBuffer
	stop func() // ends following, and closes the file
}

// share starts a node with the file at a path.
func share(t testing.TB, url, path string) *sharer {
	t.Helper()
	n := &sharer{t: t, path: path, url: url, log: new(text.OutputBuffer)}
	n.start()
	t.Cleanup(func() { n.stop() })
	return n
}

func (n *sharer) start() {
	n.t.Helper()
	log, err := recordlog.Open(n.url, "shop")
	testkit.Must(n.t, err)
	n.File, err = Open(n.path, Options{Log: log, Node: filepath.Base(n.path), Logger: slog.New(slog.NewTextHandler(n.log, nil))})
	testkit.Must(n.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	file := n.File
	following.Go(func() { file.Follow(ctx) })
	n.stop = sync.OnceFunc(func() {
		cancel()
		following.Wait()
		log.Close()
		_ = file.Close() // the next Open reports what is wrong
	})
}

// restart stops the node, and starts it again.
func (n *sharer) restart() {
	n.t.Helper()
	n.stop()
	n.start()
}

// fleet starts nodes that share records.
func fleet(t testing.TB, url string, count int) []*sharer {
	t.Helper()
	dir := t.TempDir()
	var nodes []*sharer
	for i := range count {
		nodes = append(nodes, share(t, url, filepath.Join(dir, fmt.Sprint("node", i))))
	}
	return nodes
}

// write makes a change, and tries again for a while if it cannot be made now.
func (n *sharer) write(records ...Record) uint64 {
	n.t.Helper()
	var c Change
	for _, r := range records {
		c.Edits = append(c.Edits, Edit{Put: r})
	}
	c.IdempotencyKey = fmt.Sprint("write-", keys.Add(1))
	for end := time.Now().Add(time.Minute); ; {
		out, err := n.Apply(n.t.Context(), c, start)
		if err == nil {
			return out.Revision
		}
		if !errors.Is(err, ErrUnavailable) || time.Now().After(end) {
			n.t.Fatalf("%v\n%s", err, n.log)
		}
	}
}

var keys atomic.Uint64

// sharedOf returns all that a file has and shares, by bucket and key.
func sharedOf(t testing.TB, f *File) map[string]string {
	t.Helper()
	all := map[string]string{}
	testkit.Must(t, f.view(func(tx *bolt.Tx) error {
		for _, name := range buckets() {
			c := tx.Bucket(name).Cursor()
			for key, value := c.First(); key != nil; key, value = c.Next() {
				if !bytes.Equal(key, overwriteKey) {
					all[string(replication.WriteKey(name, key))] = string(value)
				}
			}
		}
		return nil
	}))
	return all
}

// wait waits for as long as a change may take to be in force.
func wait(t testing.TB, what string, holds func() bool) {
	t.Helper()
	end := time.Now().Add(deadline)
	testkit.Until(t, what, func() bool {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			t.Fatalf("not so after %v: %s", deadline, what)
		}
		return false
	})
}

// agree waits until all nodes and Redis have the same records, trail and outcomes, and checks the
// trails.
func agree(t testing.TB, nodes ...*sharer) {
	t.Helper()
	format := string(replication.WriteKey(dbfile.About, dbfile.FormatKey)) // a new file has it too, so no change writes it
	end := time.Now().Add(40 * time.Second)
	testkit.Until(t, "all nodes and Redis have the same", func() bool {
		state := stateIn(t, nodes[0].url)
		delete(state, format)
		same := true
		for _, n := range nodes {
			own := sharedOf(t, n.File)
			delete(own, format)
			at, hash := n.Head()
			last := trail.Head{}
			testkit.Must(t, n.view(func(tx *bolt.Tx) error {
				last = trail.Last(tx)
				return nil
			}))
			if equal(own, state) && last.String() == fmt.Sprint(at, ":", hash) {
				continue
			}
			if same = false; time.Now().After(end) {
				t.Fatalf("%s has something else than Redis: %v\n%s\n%s", n.path, n.Status(time.Now()), difference(own, state), n.log)
			}
		}
		return same
	})
	for _, n := range nodes {
		if r, err := n.Verify(t.Context()); err != nil || r.Break != nil {
			t.Errorf("the trail of %s: %v, %v", n.path, r.Break, err)
		}
	}
}

// stateIn returns the state in Redis; nil if it cannot be read.
func stateIn(t testing.TB, url string) map[string]string {
	t.Helper()
	log, err := recordlog.Open(url, "shop")
	testkit.Must(t, err)
	defer log.Close()
	state := map[string]string{}
	err = log.State(t.Context(), func(page []replication.Write) error {
		for _, w := range page {
			state[string(w.Key)] = string(w.Value)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	delete(state, string(replication.WriteKey(dbfile.About, overwriteKey)))
	return state
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	return true
}

func difference(a, b map[string]string) string {
	var lines []string
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			lines = append(lines, fmt.Sprintf("%q: %q, %q", key, value, other))
		}
	}
	for key, value := range b {
		if _, ok := a[key]; !ok {
			lines = append(lines, fmt.Sprintf("%q: only %q", key, value))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines[:min(len(lines), 10)], "\n")
}

// dump copies the keys of the records in Redis, and put puts the copy back.
func dump(server *testkit.RedisServer) (put func()) {
	server.Do("CONFIG", "SET", "appendonly", "no")
	dir := server.Do("CONFIG", "GET", "dir")
	dir = dir[strings.LastIndexByte(dir, '\n')+1:]
	server.Do("SAVE")
	data, err := os.ReadFile(filepath.Join(dir, "dump.rdb"))
	return func() {
		if err != nil {
			panic(err)
		}
		_ = os.WriteFile(filepath.Join(dir, "dump.rdb"), data, 0o600)
		server.Do("DEBUG", "RELOAD", "NOSAVE")
	}
}
