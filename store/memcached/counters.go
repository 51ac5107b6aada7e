package memcached

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"stint"
	"stint/internal/transaction"
	"stint/store/memcached/meta"
)

// maxBlocks is the largest number of blocks of a sliding window that are counters of their own: each
// decision reads all of them. A window of more blocks is one item.
const maxBlocks = 64

// maxCount is the largest count of a counter. What is larger was not written by a Store, which never
// comes near it; memcached's counters wrap at 2^64.
const maxCount = 1 << 62

// maxAdd is the most units that a query adds before it has read the count, so that no number of nodes
// brings a counter near maxCount.
const maxAdd = 1 << 40

// counted reports whether the windows or blocks of a limit are counters: those that start at fixed
// times, and of which one says nothing about another.
func (s *Store) counted(l *stint.Limit) bool {
	spec := l.Spec()
	switch {
	case s.onlyItems:
		return false
	case spec.Algorithm == stint.FixedWindow:
		return !spec.FromFirst && !spec.CarryDebt
	}
	return spec.Algorithm == stint.SlidingWindow && !spec.StartUsedUp && spec.Blocks <= maxBlocks
}

// counter is the count of one window or block.
type counter struct {
	name   string
	at     int64  // start of the window, or number of the block
	before uint64 // the count without this query
	count  uint64 // the count in memcached
}

// grid is the counters that a query needs, the present one last.
type grid struct {
	counters []counter
	life     time.Duration // for how long memcached keeps a count that the query makes
}

// grid returns the counters of a query at now.
func (s *Store) grid(q *query, now stint.Instant) (g grid) {
	spec := q.limit.Spec()
	if spec.Algorithm == stint.SlidingWindow {
		blocks := int64(max(1, spec.Blocks))
		size := spec.Per.Microseconds() / blocks
		last := int64(now) / size
		for n := max(0, last-blocks); n <= last; n++ {
			g.counters = append(g.counters, counter{name: s.counterName(q, size, n), at: n})
		}
		g.life = s.life(q, now, stint.Instant((last+1)*size).Add(spec.Per))
		return g
	}
	start, size, number := int64(0), int64(0), int64(0)
	if spec.Calendar == stint.NoPeriod {
		size = spec.Per.Microseconds()
		number = int64(now) / size
		start = number * size
	} else {
		var st stint.State
		q.limit.Force(&st, now, 1)
		start, number = st.T, st.T
	}
	g.counters = append(g.counters, counter{name: s.counterName(q, size, number), at: start})
	g.life = s.life(q, now, now.Add(q.limit.Test(new(stint.State), now, 0).ResetAfter))
	return g
}

// count decides a query whose state is counters. A take that may pass is added at once, in the round
// trip that reads the counters, and what then must not be charged is subtracted again: until that has
// arrived others see more use than there is, and never less.
func (s *Store) count(ctx context.Context, q *query) (stint.Decision, error) {
	now := s.now(q.at)
	if q.limit.Capacity() == 0 {
		return q.apply(new(transaction.Record{Limit: q.limit}), now), nil
	}
	g := s.grid(q, now)
	added := q.addsFirst()
	commands := make([]meta.Command, len(g.counters))
	last := len(commands) - 1
	for i := range g.counters {
		commands[i] = meta.Get(g.counters[i].name)
	}
	if added > 0 {
		commands[last] = meta.Increase(g.counters[last].name, added, meta.TTL(g.life, time.Now()))
	}
	replies, err := s.client.Do(ctx, place(q.key), commands...)
	if err != nil {
		return stint.Decision{}, explain("decide", err, added > 0)
	}
	if err := g.read(replies, added); err != nil {
		if added > 0 && replies[last].Status == meta.Value {
			s.client.Post(place(q.key), meta.Add(g.counters[last].name, -added)) // also undoes a wrap
		}
		return stint.Decision{}, err
	}
	r := transaction.Record{Limit: q.limit}
	if r.State, err = g.state(q.limit); err != nil {
		return stint.Decision{}, err
	}
	d := q.apply(&r, now)
	changes, adds := g.changes(q.limit, &r.State, meta.TTL(g.life, time.Now()))
	switch {
	case len(changes) == 0:
		return d, nil
	case !adds && added > 0:
		s.client.Post(place(q.key), changes...)
		return d, nil
	}
	replies, err = s.client.Do(ctx, place(q.key), changes...)
	if err != nil {
		return d, explain("decide", err, true)
	}
	for i := range replies {
		if replies[i].Status == meta.Rejected {
			return d, rejected("decide", replies[i].Problem)
		}
	}
	return d, nil
}

// addsFirst returns how many units a query adds before it knows whether they pass, 0 for none: those
// of a take that fits an unused key, or that is charged even if it is denied.
func (q *query) addsFirst() uint64 {
	most := uint64(q.limit.Capacity())
	switch {
	case !q.takes():
		return 0
	case q.limit.ForStores().Overdraws():
		return min(q.cost, maxAdd)
	case q.op == stint.AskAtMost:
		return min(q.cost, most)
	case q.cost > most:
		return 0
	}
	return q.cost
}

// read reads the answers to the first commands of a query, which has added units to the last counter.
func (g *grid) read(replies []meta.Reply, added uint64) error {
	for i := range replies {
		c := &g.counters[i]
		switch r := &replies[i]; r.Status {
		case meta.Missing:
			continue
		case meta.Value:
			n, ok := r.Number()
			if !ok || n > maxCount || i == len(replies)-1 && n < added {
				return &undecodable{name: c.name, why: "its value is not a count"}
			}
			c.count, c.before = n, n
		default:
			if notNumber(r.Problem) {
				return &undecodable{name: c.name, why: "its value is not a count"}
			}
			return rejected("decide", r.Problem)
		}
	}
	last := &g.counters[len(g.counters)-1]
	last.before -= min(added, last.before)
	return nil
}

// state returns the state that the counters describe, without what the query has added.
func (g *grid) state(l *stint.Limit) (st stint.State, err error) {
	if l.Algorithm() == stint.FixedWindow {
		if c := g.counters[0]; c.before > 0 {
			st.T, st.N = c.at, int64(c.before)
		}
		return st, nil
	}
	text, at, entries := []byte(nil), int64(0), 0
	for _, c := range g.counters {
		if c.before > 0 {
			text = binary.AppendUvarint(binary.AppendUvarint(text, uint64(c.at-at)), c.before)
			at, entries = c.at, entries+1
		}
	}
	head := binary.AppendUvarint([]byte{1, 0, 0}, uint64(entries)) // version, T, N
	if err := st.UnmarshalBinary(append(head, text...)); err != nil {
		return st, &undecodable{name: g.counters[len(g.counters)-1].name, why: err.Error()}
	}
	return st, nil
}

// counts returns the counts of a state, by start of the window or number of the block.
func counts(l *stint.Limit, st *stint.State) map[int64]uint64 {
	if l.Algorithm() == stint.FixedWindow {
		return map[int64]uint64{st.T: uint64(st.N)}
	}
	text, _ := st.AppendBinary(nil) // it never fails
	text = text[1:]
	fields := 2
	if st.Written != 0 {
		fields = 3
	}
	for range fields {
		_, n := binary.Varint(text)
		text = text[n:]
	}
	uvarint := func() uint64 {
		v, n := binary.Uvarint(text)
		text = text[n:]
		return v
	}
	all, at := map[int64]uint64{}, int64(0)
	for range uvarint() {
		at += int64(uvarint())
		all[at] = uvarint()
	}
	return all
}

// changes returns the commands after which the counters are those of a state. adds reports whether one
// of them adds units.
func (g *grid) changes(l *stint.Limit, st *stint.State, ttl int64) (commands []meta.Command, adds bool) {
	after := counts(l, st)
	for _, c := range g.counters {
		switch n := after[c.at]; {
		case n > c.count:
			commands, adds = append(commands, meta.Increase(c.name, n-c.count, ttl)), true
		case n < c.count:
			commands = append(commands, meta.Decrease(c.name, c.count-n))
		}
	}
	return commands, adds
}

// undecodable is the error about a key whose state cannot be read. Nothing was charged.
type undecodable struct{ name, why string }

// Error says which key it is, and why.
func (e *undecodable) Error() string { return "the key " + e.name + " cannot be read: " + e.why }

// asUndecodable returns the undecodable of an error.
func asUndecodable(err error) (*undecodable, bool) { return errors.AsType[*undecodable](err) }
