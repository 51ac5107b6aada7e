package records

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gaissmai/bart"
	bolt "go.etcd.io/bbolt"

	"stint/internal/text"
)

// MaxPatterns is the most overrides with a pattern. A subject that is not in the cache is compared
// with all patterns for its key.
const MaxPatterns = 1000

// memory is the part of the records that is always in memory: banned networks and patterns. It is
// immutable.
type memory struct {
	revision uint64
	networks *bart.Table[banEnds]
	patterns map[string][]*patternOverride // by the key of the entry, in order of precedence
}

// patternOverride is an override with a pattern.
type patternOverride struct {
	Override
	glob     text.Glob
	length   int // bytes without stars
	revision uint64
}

// banEnds are ends of bans, in seconds since 1970. One look-up of the smallest network with an address
// finds until when the address is banned.
type banEnds struct {
	own  int64 // of the network's own ban
	last int64 // of this ban and the bans of all larger networks around it, whichever is last
}

// noEnd is the end of a ban without an end.
const noEnd = math.MaxInt64

func endOf(until time.Time) int64 {
	if until.IsZero() {
		return noEnd
	}
	return until.Unix()
}

// loadMemory reads the memory from the file.
func (f *File) loadMemory(tx *bolt.Tx) (*memory, error) {
	m := &memory{revision: revisionOf(tx), networks: new(bart.Table[banEnds]), patterns: map[string][]*patternOverride{}}
	c := tx.Bucket(bucketOf(Bans)).Cursor()
	for name, value := c.First(); name != nil; name, value = c.Next() {
		if bytes.IndexByte(name, '=') >= 0 { // a subject
			continue
		}
		v, err := decode[stored[Ban]](f, name, value)
		if err != nil {
			return nil, err
		}
		end := endOf(v.Record.Until)
		m.networks.Insert(v.Record.Network, banEnds{end, end})
	}
	for network, last := range unsettled(m.networks, m.networks.All()) {
		m.networks.Modify(network, func(e banEnds, _ bool) (banEnds, bool) { return banEnds{e.own, last}, false })
	}
	c = tx.Bucket(bucketOf(Overrides)).Cursor()
	for name, value := c.First(); name != nil; name, value = c.Next() {
		target, _, _ := bytes.Cut(name, []byte(separator))
		if bytes.IndexByte(target, '*') < 0 {
			continue
		}
		v, err := decode[stored[Override]](f, name, value)
		if err != nil {
			return nil, err
		}
		m.putPattern(v.Record, v.Revision)
	}
	return m, nil
}

// after returns the memory after a change.
func (m *memory) after(edits []Edit, revision uint64) (*memory, error) {
	next := &memory{revision, m.networks, maps.Clone(m.patterns)}
	for i := range edits {
		e := &edits[i]
		id := e.id()
		switch network, err := netip.ParsePrefix(id.Name); {
		case id.isPattern():
			next.dropPattern(id)
			if o, ok := e.Put.(Override); ok {
				next.putPattern(o, revision)
			}
		case id.Kind != Bans || err != nil:
		case e.Put == nil:
			next.networks = settle(next.networks.DeletePersist(network), network)
		default:
			ban, _ := e.Put.(Ban)
			next.networks = settle(next.networks.InsertPersist(network, banEnds{own: endOf(ban.Until)}), network)
		}
	}
	count := 0
	for _, all := range next.patterns {
		count += len(all)
	}
	if count > MaxPatterns {
		return nil, &Error{Where: "overrides", Problem: fmt.Sprintf("%d patterns, at most %d", count, MaxPatterns), Hint: "delete some that have ended, or use plans for large groups"}
	}
	return next, nil
}

// settle returns a table of bans after the ban of a network has changed. It sets the last end of this
// network and of all networks in it.
func settle(t *bart.Table[banEnds], changed netip.Prefix) *bart.Table[banEnds] {
	next := t
	for network, last := range unsettled(t, t.Subnets(changed)) {
		ends, _ := t.Get(network)
		next = next.InsertPersist(network, banEnds{ends.own, last})
	}
	return next
}

// unsettled returns the right last end of each of the networks in which it is wrong.
func unsettled(t *bart.Table[banEnds], networks iter.Seq2[netip.Prefix, banEnds]) map[netip.Prefix]int64 {
	wrong := map[netip.Prefix]int64{}
	for network, ends := range networks {
		last := ends.own
		for _, around := range t.Supernets(network) {
			last = max(last, around.own)
		}
		if last != ends.last {
			wrong[network] = last
		}
	}
	return wrong
}

// isPattern reports whether the record is an override with a pattern.
func (id ID) isPattern() bool { return id.Kind == Overrides && strings.Contains(id.target(), "*") }

// target returns the target of an override.
func (id ID) target() string {
	target, _, _ := strings.Cut(id.Name, separator)
	return target
}

func (m *memory) putPattern(o Override, revision uint64) {
	key, value, _ := strings.Cut(o.Target, "=")
	o.Why = "" // decisions do not need it
	p := &patternOverride{o, text.NewGlob(value), len(value) - strings.Count(value, "*"), revision}
	all := m.patterns[key]
	// Longer patterns come first, then newer ones. Patterns of one change are ordered by name, so that
	// a restart does not change their order.
	at, _ := slices.BinarySearchFunc(all, p, func(a, b *patternOverride) int {
		return cmp.Or(cmp.Compare(b.length, a.length), cmp.Compare(b.revision, a.revision), strings.Compare(a.Target, b.Target), strings.Compare(a.Rule, b.Rule))
	})
	m.patterns[key] = slices.Insert(slices.Clip(slices.Clone(all)), at, p)
}

func (m *memory) dropPattern(id ID) {
	key, _, _ := strings.Cut(id.Name, "=")
	m.patterns[key] = slices.DeleteFunc(slices.Clone(m.patterns[key]), func(p *patternOverride) bool { return p.ID() == id })
}
