package replication

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"stint"
)

const (
	// updateTimeout is how long a change may take, with all waiting, beside the time for which it is sent.
	updateTimeout = 2 * time.Second

	// tries is how often a change is tried if other nodes change the records at the same time.
	tries = 20

	// settle is how long a node that has nothing waits for others that have something, before it makes
	// the first change.
	settle = 1500 * time.Millisecond

	// MaxChange is the most bytes of a change. A server is busy for some 30 ms with so many.
	MaxChange = 4 << 20
)

// Options are the settings of a Copy.
type Options struct {
	// Path is the path of the database. Files with the same path and .sync or .lost at the end belong
	// to the copy too.
	Path string

	// Buckets are the names of the shared buckets. They exist in every file. A copy in which all but
	// the first are empty has nothing to lose.
	Buckets [][]byte

	// Log is the shared log; nil if the file is not shared.
	Log Log

	// Node is the name of this node. A random part is added, which is kept in the file.
	Node string

	// Revision returns the revision of the records, for other nodes to see.
	Revision func(*bolt.Tx) uint64

	// Init makes an empty file, with the shared buckets.
	Init func(*bolt.Tx) error

	// Applied prepares to put writes of other nodes in force, which the transaction contains. forget is
	// as in Tx. publish is called when they are on disk; no other change is made before it has
	// returned.
	Applied func(tx *bolt.Tx, writes []Write, forget bool) (publish func(), err error)

	// Replaced prepares to put another file in force, to which the transaction belongs, or the same file
	// again after a panic. It checks the file. publish is as for Applied.
	Replaced func(tx *bolt.Tx) (publish func(), err error)

	// Describe returns a name for what a write changed, for messages; "" for what no operator knows.
	Describe func(*Write) string

	// Guard calls a function that reads the database, and returns its panics as errors.
	Guard func(func() error) error

	// Hint returns what to do about an error of Log.
	Hint func(error) string

	// Logger gets a message when the log cannot be read, when it can be read again, and when the file
	// is replaced.
	Logger *slog.Logger
}

// Copy is the copy of one node. It is safe for concurrent use.
type Copy struct {
	options Options
	db      atomic.Pointer[bolt.DB]
	changes chan struct{} // contains one element while somebody changes the copy
	readers sync.RWMutex  // held by readers
	old     sync.WaitGroup
	closing chan struct{}
	closed  sync.Once     // closes closing
	known   chan struct{} // closed when the copy was up to date once, in this process or an earlier one
	first   sync.Once     // closes known

	unpublished bool // what is on disk may not be in force; for who has acquired the copy

	mu     sync.Mutex
	synced time.Time // when the copy was certainly up to date
	away   error     // why it cannot be brought up to date; nil if it can
	since  time.Time // when away began
	fresh  time.Time // since when neither this node nor the log has anything; zero: one of them has
	nodes  []Node
	beaten time.Time // when Beat was called last
	server time.Time // the time of the server then
	told   uint64    // the revision that it reported
}

// New returns the copy in an open database. It closes the database when it is closed.
func New(db *bolt.DB, options Options) (*Copy, error) {
	c := &Copy{options: options, changes: make(chan struct{}, 1), closing: make(chan struct{}), synced: time.Now(), known: make(chan struct{})}
	c.db.Store(db)
	if options.Log == nil {
		c.first.Do(func() { close(c.known) })
		return c, nil
	}
	if err := os.Remove(options.Path + syncSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var ready bool
	err := db.View(func(tx *bolt.Tx) error {
		ready = tx.Bucket(placeBucket) != nil
		if at := syncedAt(tx); !at.IsZero() {
			c.synced = at
		}
		if !c.isEmpty(tx) || headOf(tx).Number > 0 || !syncedAt(tx).IsZero() {
			c.first.Do(func() { close(c.known) })
		}
		return nil
	})
	if err != nil || ready {
		return c, err
	}
	return c, db.Update(func(tx *bolt.Tx) error { return prepare(tx, nil) })
}

// prepare makes the buckets of a copy that are not shared. node is the random part of the node's name;
// nil for a new one.
func prepare(tx *bolt.Tx, node []byte) error {
	place, err := tx.CreateBucketIfNotExists(placeBucket)
	if err != nil {
		return err
	}
	if _, err := tx.CreateBucketIfNotExists(historyBucket); err != nil {
		return err
	}
	if len(node) == 0 {
		random := make([]byte, 4)
		randomize(random)
		node = hex.AppendEncode(nil, random)
	}
	return place.Put(nodeKey, node)
}

// Close closes the database.
func (c *Copy) Close() error {
	c.closed.Do(func() { close(c.closing) })
	c.old.Wait()
	return c.db.Load().Close()
}

// Exclusive calls do, and lets nobody change or replace the database meanwhile.
func (c *Copy) Exclusive(do func() error) error {
	c.acquire(context.Background())
	defer c.release()
	return do()
}

// WaitForReaders returns when all calls of View that began before have ended.
func (c *Copy) WaitForReaders() {
	c.readers.Lock()
	defer c.readers.Unlock()
}

// View reads the copy in one transaction.
func (c *Copy) View(read func(*bolt.Tx) error) error {
	c.readers.RLock()
	defer c.readers.RUnlock()
	for {
		db := c.db.Load()
		err := db.View(read)
		if !errors.Is(err, bolterrors.ErrDatabaseNotOpen) || c.db.Load() == db {
			return err
		}
	}
}

// UpdateLocal changes what is not shared.
func (c *Copy) UpdateLocal(change func(*bolt.Tx) error) error {
	for {
		db := c.db.Load()
		err := db.Update(change)
		if !errors.Is(err, bolterrors.ErrDatabaseNotOpen) || c.db.Load() == db {
			return err
		}
	}
}

// DB returns the database, which another may replace at any time.
func (c *Copy) DB() *bolt.DB { return c.db.Load() }

// UnavailableError is why a change cannot be made now. If it wraps stint.ErrUnknown, the change may
// have been made, or will be; otherwise nothing has changed, nor will.
type UnavailableError struct {
	Problem string
	Hint    string
	Err     error // may be nil
}

// Error returns the problem, without the hint.
func (e *UnavailableError) Error() string { return e.Problem }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

const againHint = "try again in a moment"

// Update makes a change and appends it to the log. It may call change several times, each time in
// another transaction. Then it calls publish. No other change is made until publish has returned.
//
// The error is that of change; an [*UnavailableError]; that of ctx, which counts only until the change
// begins; or that of the disk. A disk that fails after the entry was appended makes an
// UnavailableError that wraps stint.ErrUnknown, because the change is made on all other nodes.
func (c *Copy) Update(ctx context.Context, change func(*Tx) error, publish func()) error {
	brief, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	wait := brief
	if c.options.Log == nil {
		wait = ctx
	}
	if !c.acquire(wait) {
		if err := ctx.Err(); err != nil {
			return err
		}
		return &UnavailableError{Problem: "changes before this one take too long", Hint: againHint}
	}
	defer c.release()
	if err := c.republish(); err != nil {
		return err
	}
	if c.options.Log == nil {
		return c.updateAlone(change, publish)
	}
	deadline, _ := brief.Deadline()
	ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	for i := range tries {
		began := time.Now()
		if i > 0 && ctx.Err() != nil { // sending took all the time
			break
		}
		if err := c.catchUp(ctx); err != nil {
			return err
		}
		moved, err := c.try(ctx, change)
		if err == nil && !moved {
			c.publish(publish)
			c.setSynced(began)
		}
		if !moved {
			return err
		}
	}
	return &UnavailableError{Problem: "other nodes change the records all the time", Hint: againHint}
}

// updateAlone makes a change of a file that is not shared.
func (c *Copy) updateAlone(change func(*Tx) error, publish func()) error {
	err := c.db.Load().Update(func(tx *bolt.Tx) error {
		recorder := &Tx{Tx: tx}
		if err := change(recorder); err != nil {
			return err
		}
		if writes, _ := recorder.Written(); len(writes) == 0 {
			return nil
		}
		return dropHistory(tx)
	})
	if err == nil {
		c.publish(publish)
	}
	return err
}

// try makes a change of a copy that has all entries. It reports whether another node was faster.
func (c *Copy) try(ctx context.Context, change func(*Tx) error) (moved bool, err error) {
	appended, forgets := false, false
	err = c.db.Load().Update(func(tx *bolt.Tx) error {
		recorder := &Tx{Tx: tx}
		if err := change(recorder); err != nil {
			return err
		}
		writes, forget := recorder.Written()
		if len(writes) == 0 && !forget {
			return nil
		}
		forgets = forget
		own := headOf(tx)
		e := own.Next(Encode(writes, forget))
		if len(e.Data) > MaxChange {
			return &UnavailableError{
				Problem: fmt.Sprintf("the change has %d bytes with its audit trail, and nodes share at most %d at once", len(e.Data), MaxChange),
				Hint:    "make several smaller changes", Err: ErrTooLarge,
			}
		}
		if err := keep(tx, &e); err != nil {
			return err
		}
		deadline, _ := ctx.Deadline()
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(sendTime(&e)))
		defer cancel()
		head, err := c.options.Log.Append(ctx, own, &e, writes, forget)
		switch {
		case err != nil:
			return c.unavailable(err)
		case head != e.Head():
			moved = true
			return errMoved
		}
		appended = true
		return nil
	})
	switch {
	case moved:
		return true, nil
	case err == nil && forgets:
		c.dropLost()
	case err != nil && appended:
		return false, &UnavailableError{
			Problem: "the change is made on all other nodes, but this one cannot write it: " + err.Error(),
			Hint:    "check the disk of this node", Err: errors.Join(stint.ErrUnknown, err),
		}
	}
	return false, err
}

// MaxSendTime is how much longer an entry of MaxChange bytes may take than a small one. It is sent as an entry and as
// the writes to the state, so 4 megabits a second are enough.
const MaxSendTime = 16 * time.Second

// sendTime is how much longer an entry may take than a small one.
func sendTime(e *Entry) time.Duration {
	return time.Duration(len(e.Data)) * MaxSendTime / MaxChange
}

// ErrTooLarge is wrapped by the error of a change with more than MaxChange bytes. It does not help to
// make it later.
var ErrTooLarge = errors.New("too large")

var errMoved = errors.New("another node was faster")

// unavailable converts an error of the log.
func (c *Copy) unavailable(err error) *UnavailableError {
	if errors.Is(err, stint.ErrUnknown) {
		return &UnavailableError{
			Problem: "the answer was lost, so the change may have been made: " + err.Error(),
			Hint:    "repeat it with the same idempotency key, or read the record", Err: err,
		}
	}
	return c.unreachable(err, err)
}

// unreachable converts an error of the log by which nothing has changed, nor will. cause is what to wrap.
func (c *Copy) unreachable(err, cause error) *UnavailableError {
	e := &UnavailableError{Problem: err.Error(), Hint: againHint, Err: cause}
	if c.options.Hint != nil && !errors.Is(err, ErrRestoring) {
		e.Hint = c.options.Hint(err)
	}
	return e
}

// acquire waits until nobody else changes the copy. It reports false if ctx ends before.
func (c *Copy) acquire(ctx context.Context) bool {
	select {
	case c.changes <- struct{}{}:
		return true
	default:
	}
	select {
	case c.changes <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Copy) release() { <-c.changes }

// head returns the place of the copy.
func (c *Copy) head() (h Head, err error) {
	err = c.View(func(tx *bolt.Tx) error {
		h = headOf(tx)
		return nil
	})
	return h, err
}

// Known returns a channel that is closed when the copy was up to date at least once, in this process or
// an earlier one. Before, a new node does not know what others know.
func (c *Copy) Known() <-chan struct{} { return c.known }

// setSynced stores that the copy was up to date at a time.
func (c *Copy) setSynced(at time.Time) {
	c.mu.Lock()
	c.synced = at
	c.mu.Unlock()
	c.first.Do(func() {
		c.storeSynced()
		close(c.known)
	})
}

// isEmpty reports whether the copy has nothing to lose.
func (c *Copy) isEmpty(tx *bolt.Tx) bool {
	for _, name := range c.options.Buckets[1:] {
		if key, _ := tx.Bucket(name).Cursor().First(); key != nil {
			return false
		}
	}
	return true
}

// Status is the state of a copy.
type Status struct {
	Age   time.Duration // how long ago the copy was certainly up to date; 0 without a log
	Nodes []Node        // all nodes, as they were a few seconds ago; nil without a log
	Err   error         // why the copy cannot be brought up to date now; nil if it can
}

// Status returns the state of the copy.
func (c *Copy) Status(now time.Time) Status {
	if c.options.Log == nil {
		return Status{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{Age: max(0, now.Sub(c.synced)), Nodes: c.nodes, Err: c.away}
}

// serverTime returns the time of the server of the log, as the last call of Beat and the time since
// then tell it. It reports false before the first call. Without a log it returns now.
func (c *Copy) serverTime(now time.Time) (at time.Time, known bool) {
	if c.options.Log == nil {
		return now, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.Add(time.Since(c.beaten)), !c.beaten.IsZero()
}

// SafeTime returns the time by which old things are deleted: the earlier one of now and the time of the
// server, so that no wrong clock of one node deletes what others need. It is the zero time, by which nothing
// is old, while the server's time is unknown.
func (c *Copy) SafeTime(now time.Time) time.Time {
	server, known := c.serverTime(now)
	switch {
	case !known:
		return time.Time{}
	case server.Before(now):
		return server
	}
	return now
}

// LateTime returns the later one of now and the time of the server, so that others do not take for old what a
// node with a late clock writes.
func (c *Copy) LateTime(now time.Time) time.Time {
	if server, known := c.serverTime(now); known && server.After(now) {
		return server
	}
	return now
}

// nodeName returns the name of this node.
func (c *Copy) nodeName(tx *bolt.Tx) string {
	return c.options.Node + "/" + string(bytes.Clone(tx.Bucket(placeBucket).Get(nodeKey)))
}
