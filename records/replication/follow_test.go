package replication

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/system"
	"stint/internal/testkit"
	"stint/internal/text"
)

// memoryLog is a log in memory.
type memoryLog struct {
	mu      sync.Mutex
	head    Head
	entries []Entry
	state   map[string]string
}

// add appends an entry that sets a key.
func (l *memoryLog) add(key, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := Write{Key: WriteKey([]byte(bucket), []byte(key)), Value: []byte(value)}
	e := l.head.Next(Encode([]Write{w}, false))
	l.head, l.entries, l.state[string(w.Key)] = e.Head(), append(l.entries, e), value
}

// lose removes everything.
func (l *memoryLog) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head, l.entries, l.state = Head{}, nil, map[string]string{}
}

// trim removes all entries but the last.
func (l *memoryLog) trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = l.entries[len(l.entries)-1:]
}

func (l *memoryLog) after(number uint64) (entries []Entry, head Head) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if e.Number > number {
			entries = append(entries, e)
		}
	}
	return entries, l.head
}

func (l *memoryLog) Read(ctx context.Context, after uint64, wait time.Duration) ([]Entry, Head, error) {
	entries, head := l.after(after)
	if len(entries) == 0 {
		system.Wait(ctx, wait)
		entries, head = l.after(after)
	}
	return entries, head, ctx.Err()
}

func (l *memoryLog) Append(_ context.Context, after Head, e *Entry, writes []Write, _ bool) (Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head == after {
		l.head, l.entries = e.Head(), append(l.entries, *e)
		for _, w := range writes {
			l.state[string(w.Key)] = string(w.Value)
		}
	}
	return l.head, nil
}

func (l *memoryLog) State(_ context.Context, page func([]Write) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, value := range l.state {
		if err := page([]Write{{Key: []byte(key), Value: []byte(value)}}); err != nil {
			return err
		}
	}
	return nil
}

func (l *memoryLog) Restore(context.Context, Head, Head, iter.Seq2[[]Write, error]) (bool, error) {
	return false, errors.New("nothing is lost")
}

func (l *memoryLog) Beat(context.Context, Node) ([]Node, time.Time, error) {
	return nil, time.Now(), nil
}

// pages are the records of a node whose file has a page that cannot be read.
type pages struct {
	bad     string // where the page is met next; "": nowhere
	inForce map[string]string
}

const bucket = "shared"

// read panics once where the page is met.
func (p *pages) read(at string) {
	if p.bad == at {
		p.bad = ""
		panic("page 7 is not there")
	}
}

func (p *pages) Init(tx *bolt.Tx) error {
	p.read("init")
	_, err := tx.CreateBucketIfNotExists([]byte(bucket))
	return err
}

func (p *pages) Applied(_ *bolt.Tx, writes []Write, _ bool) (func(), error) {
	p.read("apply")
	return func() {
		p.read("publish")
		for _, w := range writes {
			p.inForce[string(w.Key)] = string(w.Value)
		}
	}, nil
}

func (p *pages) Replaced(tx *bolt.Tx) (func(), error) {
	p.read("replace")
	all := map[string]string{}
	err := tx.Bucket([]byte(bucket)).ForEach(func(key, value []byte) error {
		all[string(WriteKey([]byte(bucket), key))] = string(value)
		return nil
	})
	return func() {
		p.read("publish replaced")
		p.inForce = all
	}, err
}

// Describe panics each time if what only this node has cannot be read.
func (p *pages) Describe(*Write) string {
	if p.bad == "lost" {
		panic("page 7 is not there")
	}
	return ""
}

// guard returns a panic as an error.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	return do()
}

// A page of the file that cannot be read at one moment makes a panic. The copying goes on after it, without a
// change that is missing, and changes can be made here.
func TestFollowSurvivesPages(t *testing.T) {
	for _, place := range []string{"apply", "publish", "replace", "publish replaced", "init", "lost"} {
		t.Run(place, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy.db")
			db, err := bolt.Open(path, 0o600, nil)
			testkit.Must(t, err)
			p, log, out := &pages{inForce: map[string]string{}}, &memoryLog{state: map[string]string{}}, new(text.OutputBuffer)
			testkit.Must(t, db.Update(p.Init))
			o := Options{
				Path: path, Buckets: [][]byte{[]byte("about"), []byte(bucket)}, Log: log, Logger: slog.New(slog.NewTextHandler(out, nil)), Guard: guard,
				Revision: func(*bolt.Tx) uint64 { return 0 }, Init: p.Init, Applied: p.Applied, Replaced: p.Replaced, Describe: p.Describe,
			}
			synctest.Test(t, func(t *testing.T) {
				c, err := New(db, o)
				testkit.Must(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				var following sync.WaitGroup
				following.Go(func() { c.Follow(ctx) })
				log.add("a", "1")
				time.Sleep(time.Minute) // in the bubble's time
				synctest.Wait()
				switch p.bad = place; place {
				case "lost":
					log.lose()
					log.add("b", "2")
				case "replace", "publish replaced", "init":
					log.add("b", "2")
					log.add("c", "3")
					log.trim() // the copy reads the whole state
				}
				log.add("a", "2")
				time.Sleep(time.Minute) // in the bubble's time
				synctest.Wait()
				if got, err := p.inForce[bucket+"\x00a"], c.Status(time.Now()).Err; got != "2" || p.bad != "" && p.bad != "lost" || err != nil {
					t.Errorf("a is %q, panics to come: %q, %v\n%s", got, p.bad, err, out)
				}
				err = c.Update(ctx, func(tx *Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte("d"), []byte("4")) }, func() {})
				if err != nil || !strings.Contains(out.String(), "page 7 is not there") {
					t.Errorf("a change: %v; the log:\n%s", err, out)
				}
				cancel()
				following.Wait()
				testkit.Must(t, c.Close())
			})
		})
	}
}

// slowLog takes three seconds for each entry, while another node makes a change.
type slowLog struct{ *memoryLog }

func (l slowLog) Append(ctx context.Context, after Head, e *Entry, writes []Write, forget bool) (Head, error) {
	time.Sleep(3 * time.Second) // in the bubble's time
	l.add("other", "1")
	return l.memoryLog.Append(ctx, after, e, writes, forget)
}

// The error of a change that others were faster than while it was sent names them.
func TestChangeOvertaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.db")
	db, err := bolt.Open(path, 0o600, nil)
	testkit.Must(t, err)
	p := &pages{inForce: map[string]string{}}
	testkit.Must(t, db.Update(p.Init))
	synctest.Test(t, func(t *testing.T) {
		c, err := New(db, Options{
			Path: path, Buckets: [][]byte{[]byte("about"), []byte(bucket)}, Log: slowLog{&memoryLog{state: map[string]string{}}},
			Guard: guard, Revision: func(*bolt.Tx) uint64 { return 0 }, Init: p.Init, Applied: p.Applied, Replaced: p.Replaced, Describe: p.Describe,
		})
		testkit.Must(t, err)
		c.options.Log.(slowLog).add("a", "1")
		err = c.Update(t.Context(), func(tx *Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte("d"), []byte("4")) }, func() {})
		if unavailable, ok := errors.AsType[*UnavailableError](err); !ok || !strings.Contains(unavailable.Problem, "other nodes change the records") {
			t.Errorf("%v", err)
		}
		testkit.Must(t, c.Close())
	})
}
