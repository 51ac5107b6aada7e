package replication

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/system"
)

const (
	// waitEntry is how long a round of Follow waits for an entry. Then it checks whether the server
	// still has the log.
	waitEntry = 250 * time.Millisecond

	// pause is the time between two rounds after an error. After errors of reading the whole state,
	// for example without room on the disk, it doubles until longestPause.
	pause        = 200 * time.Millisecond
	longestPause = 30 * time.Second

	// A node reports its revision after beatLeast when it has changed, and after beatMost in any case.
	beatLeast = time.Second
	beatMost  = 2 * time.Second

	// forgetAfter is how long an entry that erases texts stays in the log. A node that is away for
	// longer reads the whole state.
	forgetAfter = 5 * time.Second

	// storeSynced is how often the file contains that it is up to date, so that its age is known after
	// a restart. It is at most so much too high.
	storeSynced = 5 * time.Minute

	// pageBytes is about how many bytes of the state are read at once.
	pageBytes = 1 << 20
)

var (
	errBehind  = errors.New("this node is being brought up to date")
	errDiffers = errors.New("the next entry does not follow this copy's last one")
)

// Follow brings the copy up to date until ctx is done. Call it once.
func (c *Copy) Follow(ctx context.Context) {
	if c.options.Log == nil {
		return
	}
	stored, next := time.Now(), pause
	for ctx.Err() == nil {
		err := c.options.Guard(func() error { return c.round(ctx) })
		if err != nil && ctx.Err() == nil {
			c.fails(err)
			system.Wait(ctx, next)
			if _, costly := errors.AsType[*resyncError](err); costly {
				next = min(2*next, longestPause)
			}
			continue
		}
		next = pause
		if err == nil {
			c.works()
		}
		if time.Since(stored) > storeSynced {
			stored = time.Now()
			c.storeSynced()
		}
	}
	c.storeSynced()
}

// storeSynced stores in the file when it was up to date. If the disk fails, the age is only too high
// after a restart.
func (c *Copy) storeSynced() {
	c.mu.Lock()
	at := c.synced
	c.mu.Unlock()
	_ = c.options.Guard(func() error {
		return c.UpdateLocal(func(tx *bolt.Tx) error { return setSynced(tx, at) })
	})
}

// round reads the log once, and does what is needed.
func (c *Copy) round(ctx context.Context) error {
	own, err := c.head()
	if err != nil {
		return err
	}
	began := time.Now()
	entries, head, err := c.options.Log.Read(ctx, own.Number, waitEntry)
	if err != nil {
		return err
	}
	if err := c.useAnswer(ctx, own, entries, head, began); err != nil {
		return err
	}
	if err := c.forget(ctx); err != nil {
		return err
	}
	return c.beat(ctx)
}

// useAnswer uses an answer of the log to a copy at own. It began to ask at a time.
func (c *Copy) useAnswer(ctx context.Context, own Head, entries []Entry, head Head, began time.Time) error {
	if !c.acquire(ctx) {
		return ctx.Err()
	}
	defer c.release() // also after a panic, which Guard returns as an error: the next round tries again
	if err := c.republish(); err != nil {
		return err
	}
	now, err := c.head()
	if err != nil || now != own { // changed meanwhile; the next round asks again
		return err
	}
	synced, err := c.reconcile(ctx, own, entries, head, true)
	if synced {
		c.setSynced(began)
	}
	return err
}

// catchUp brings the copy up to date before a change, if that takes only a moment.
func (c *Copy) catchUp(ctx context.Context) error {
	for {
		own, err := c.head()
		if err != nil {
			return err
		}
		entries, head, err := c.options.Log.Read(ctx, own.Number, 0)
		if err != nil {
			return c.unreachable(err, errReading) // reading has no unknown outcome
		}
		synced, err := c.reconcile(ctx, own, entries, head, false)
		switch {
		case errors.Is(err, errBehind):
			return &UnavailableError{Problem: errBehind.Error(), Hint: againHint, Err: err}
		case err != nil:
			return err
		case synced && c.settled(ctx, own, head):
			return nil
		case ctx.Err() != nil:
			return &UnavailableError{Problem: "this node could not be brought up to date in time", Hint: againHint}
		}
	}
}

var errReading = errors.New("the log could not be read")

// settled reports whether a first change may be made: there are entries, or nobody restored any for a
// moment. It waits a little if not.
func (c *Copy) settled(ctx context.Context, own, head Head) bool {
	c.mu.Lock()
	fresh := c.fresh
	c.mu.Unlock()
	if own.Number > 0 || head.Number > 0 || time.Since(fresh) >= settle {
		return true
	}
	system.Wait(ctx, min(pause, settle-time.Since(fresh)))
	return false
}

// reconcile compares the copy at own with an answer of the log, and does what is needed; only what
// takes a moment unless full. It reports whether the copy has the head of the log. The caller has
// acquired the copy.
func (c *Copy) reconcile(ctx context.Context, own Head, entries []Entry, head Head, full bool) (synced bool, err error) {
	var empty, known bool
	err = c.View(func(tx *bolt.Tx) error {
		empty, known = c.isEmpty(tx), contains(tx, head)
		return nil
	})
	if err != nil {
		return false, err
	}
	c.setFresh(own.Number == 0 && empty && head.Number == 0)
	differs := own.Number == 0 && !empty
	switch {
	case own == head && !differs:
		return true, nil
	case head.Number > own.Number && !differs:
		if len(entries) == 0 || entries[0].Number > own.Number+1 {
			return false, c.resync(ctx, full, "the log no longer has the next entry")
		}
		if err = c.apply(entries); errors.Is(err, errDiffers) {
			return false, c.resync(ctx, full, "")
		}
		return err == nil && entries[len(entries)-1].Head() == head, err
	case head.Number == 0:
		return false, c.restore(ctx, full, own, head)
	case !known || differs:
		return false, c.resync(ctx, full, "")
	}
	return false, c.push(ctx, full, own, head)
}

func (c *Copy) setFresh(fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !fresh:
		c.fresh = time.Time{}
	case c.fresh.IsZero():
		c.fresh = time.Now()
	}
}

// apply applies entries that follow the copy, all or none. It returns errDiffers if the first does not.
func (c *Copy) apply(entries []Entry) error {
	var publish func()
	var forgets bool
	err := c.db.Load().Update(func(tx *bolt.Tx) (err error) {
		var all []Write
		for i := range entries {
			e := &entries[i]
			if next := headOf(tx).Next(e.Data); next.Head() != e.Head() {
				return errDiffers
			}
			writes, forget, err := Decode(e.Data)
			if err == nil {
				err = Replay(tx, c.options.Buckets, writes)
			}
			if err == nil {
				err = keep(tx, e)
			}
			if err != nil {
				return err
			}
			all, forgets = append(all, writes...), forgets || forget
		}
		publish, err = c.options.Applied(tx, all, forgets)
		return err
	})
	if err == nil {
		c.publish(publish)
	}
	if err == nil && forgets {
		c.dropLost()
	}
	return err
}

// publish calls a function that puts in force what is on disk. The caller has acquired the copy.
func (c *Copy) publish(do func()) {
	c.unpublished = true
	do()
	c.unpublished = false
}

// republish puts in force what is on disk, if a panic of publish has prevented that. The caller has acquired
// the copy.
func (c *Copy) republish() error {
	if !c.unpublished {
		return nil
	}
	var publish func()
	err := c.View(func(tx *bolt.Tx) (err error) {
		publish, err = c.options.Replaced(tx)
		return err
	})
	if err == nil {
		c.publish(publish)
	}
	return err
}

// forget appends an entry that makes all nodes forget the data of the last erasure, once nodes had the
// time to apply it. One node does so.
func (c *Copy) forget(ctx context.Context) error {
	since, err := c.toForget()
	if err != nil || since.IsZero() || time.Since(since) < forgetAfter {
		return err
	}
	var publish func()
	return c.Update(ctx, func(tx *Tx) (err error) {
		if publish = func() {}; toForget(tx.Tx).IsZero() { // another node was faster
			return nil
		}
		tx.Forget()
		publish, err = c.options.Applied(tx.Tx, nil, true)
		return err
	}, func() { publish() })
}

func (c *Copy) toForget() (since time.Time, err error) {
	err = c.View(func(tx *bolt.Tx) error {
		since = toForget(tx)
		return nil
	})
	return since, err
}

// push appends the entries that the server has lost, which follow head.
func (c *Copy) push(ctx context.Context, full bool, own, head Head) error {
	c.options.Logger.Warn("Redis has lost changes of records; restoring them from this node's copy", "first", head.Number+1, "last", own.Number)
	for head.Number < own.Number {
		var e Entry
		var known bool
		err := c.View(func(tx *bolt.Tx) error {
			known = contains(tx, head)
			e, _ = entryAt(tx, head.Number+1)
			return nil
		})
		switch {
		case err != nil:
			return err
		case !known: // another node has appended something else
			return nil
		case e.Data == nil: // forgotten
			return c.restore(ctx, full, own, head)
		}
		writes, forget, err := Decode(e.Data)
		if err != nil {
			return err
		}
		if head, err = c.options.Log.Append(ctx, head, &e, writes, forget); err != nil {
			return err
		}
	}
	return nil
}

// restore replaces what the server has by this copy.
func (c *Copy) restore(ctx context.Context, full bool, own, instead Head) error {
	if !full {
		return errBehind
	}
	if own.Number == 0 { // a file that was not shared before becomes the beginning of a history
		own = c.begin()
		if err := c.db.Load().Update(func(tx *bolt.Tx) error { return setHead(tx, own) }); err != nil {
			return err
		}
	}
	c.options.Logger.Warn("Redis has no records, or old ones; restoring them from this node's copy", "last", own.Number)
	done, err := c.options.Log.Restore(ctx, instead, own, c.state())
	switch {
	case err != nil:
		return err
	case !done: // another node is faster; it takes some time
		system.Wait(ctx, pause)
	default:
		c.options.Logger.Info("records restored to Redis", "last", own.Number)
	}
	return nil
}

// begin returns the first place of a history.
func (c *Copy) begin() Head {
	var random [16]byte
	randomize(random[:])
	e := Head{}.Next(random[:])
	return e.Head()
}

// state returns all that is shared, in pages.
func (c *Copy) state() iter.Seq2[[]Write, error] {
	return func(yield func([]Write, error) bool) {
		for _, name := range c.options.Buckets {
			for after, first := []byte(nil), true; ; first = false {
				page, last, err := c.page(name, after, first)
				if err != nil {
					yield(nil, err)
					return
				}
				if len(page) == 0 {
					break
				}
				if !yield(page, nil) {
					return
				}
				after = last
			}
		}
	}
}

// page returns keys of a bucket that follow a key, or the first ones, and the last of them.
func (c *Copy) page(name, after []byte, first bool) (page []Write, last []byte, err error) {
	err = c.View(func(tx *bolt.Tx) error {
		cursor := tx.Bucket(name).Cursor()
		key, value := cursor.First()
		if !first {
			cursor.Seek(after) // the copy does not change meanwhile
			key, value = cursor.Next()
		}
		for size := 0; key != nil && size < pageBytes; key, value = cursor.Next() {
			page = append(page, Write{Key: WriteKey(name, key), Value: slices.Clone(value)})
			last = append(last[:0], key...)
			size += len(name) + len(key) + len(value)
		}
		return nil
	})
	return page, last, err
}

// beat reports what this node has, and reads what the others have.
func (c *Copy) beat(ctx context.Context) error {
	own := Node{}
	err := c.View(func(tx *bolt.Tx) error {
		own.Name, own.Revision = c.nodeName(tx), c.options.Revision(tx)
		return nil
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	since := time.Since(c.beaten)
	due := since >= beatMost || since >= beatLeast && c.told != own.Revision
	c.mu.Unlock()
	if !due {
		return nil
	}
	nodes, server, err := c.options.Log.Beat(ctx, own)
	if err != nil {
		return err
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.server, c.beaten, c.told = nodes, server, time.Now(), own.Revision
	return nil
}

// fails logs once that the copy cannot be brought up to date.
func (c *Copy) fails(err error) {
	c.mu.Lock()
	first := c.away == nil
	c.away = err
	if first {
		c.since = time.Now()
	}
	c.mu.Unlock()
	if !first {
		return
	}
	attrs := []any{"error", err}
	if c.options.Hint != nil {
		attrs = append(attrs, "hint", c.options.Hint(err))
	}
	c.options.Logger.Warn("cannot read the changes of records: the last ones that were read stay in force, and nothing can be changed here", attrs...)
}

// works logs that it can again.
func (c *Copy) works() {
	c.mu.Lock()
	was, since := c.away, c.since
	c.away = nil
	c.mu.Unlock()
	if was != nil {
		c.options.Logger.Info("changes of records can be read again", "after", time.Since(since).Round(time.Millisecond).String())
	}
}

// list returns names for a message: the first ones, and how many there are beside them.
func list(names []string) string {
	const most = 20
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > most {
		names = append(names[:most:most], "...")
	}
	return strings.Join(names, ", ")
}
