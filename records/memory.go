package records

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/dbfile"
	"stint/records/index"
)

// MaxPatterns is the most overrides with a pattern. A subject that is not in the cache is compared
// with all patterns for its key.
const MaxPatterns = 1000

// memory is the part of the records that is always in memory: banned networks and patterns. It is
// immutable.
type memory struct {
	revision uint64
	networks index.Table
	patterns index.Patterns[Override] // overrides with a pattern
	keys     map[string]struct{}      // keys of entries that are subjects, or have a ban, an override or a grant, or had one
}

// endOf returns the end of a ban as in package index.
func endOf(until time.Time) int64 {
	if until.IsZero() {
		return index.NoEnd
	}
	return until.Unix()
}

// loadMemory reads the memory from the file.
func (f *File) loadMemory(tx *bolt.Tx) (*memory, error) {
	var err error
	m := &memory{revision: dbfile.Revision(tx), keys: map[string]struct{}{}}
	m.networks = index.NewTable(f.bannedNetworks(tx, m.keys, &err))
	if err != nil {
		return nil, err
	}
	c := tx.Bucket(bucketOf(Overrides)).Cursor()
	for name, value := c.First(); name != nil; name, value = c.Next() {
		target, _, _ := bytes.Cut(name, []byte(separator))
		key, _, _ := bytes.Cut(target, []byte("="))
		m.keys[string(key)] = struct{}{}
		if bytes.IndexByte(target, '*') < 0 {
			continue
		}
		v, err := decode[stored[Override]](f, name, value)
		if err != nil {
			return nil, err
		}
		m.putPattern(v.Record, v.Revision)
	}
	for _, kind := range []Kind{Subjects, Grants} {
		c = tx.Bucket(bucketOf(kind)).Cursor()
		for name, _ := c.First(); name != nil; {
			key, _, _ := bytes.Cut(name, []byte("="))
			m.keys[string(key)] = struct{}{}
			name, _ = c.Seek(append(bytes.Clone(key), '='+1)) // past all subjects with this key
		}
	}
	return m, nil
}

// bannedNetworks returns the banned networks and their ends. It adds the keys of banned subjects to
// keys, and sets err if it cannot read all.
func (f *File) bannedNetworks(tx *bolt.Tx, keys map[string]struct{}, err *error) iter.Seq2[netip.Prefix, int64] {
	return func(yield func(netip.Prefix, int64) bool) {
		c := tx.Bucket(bucketOf(Bans)).Cursor()
		for name, value := c.First(); name != nil; name, value = c.Next() {
			if key, _, subject := bytes.Cut(name, []byte("=")); subject {
				keys[string(key)] = struct{}{}
				continue
			}
			v, fault := decode[stored[Ban]](f, name, value)
			if fault != nil {
				*err = fault
				return
			}
			if !yield(v.Record.Network, endOf(v.Record.Until)) {
				return
			}
		}
	}
}

// after returns the memory after a change.
func (m *memory) after(edits []Edit, revision uint64) (*memory, error) {
	next := &memory{revision: revision, patterns: m.patterns, keys: m.keys}
	banned := m.networks.Edit()
	for i := range edits {
		e := &edits[i]
		id := e.id()
		next.addKey(id)
		switch network, err := netip.ParsePrefix(id.Name); {
		case id.isPattern():
			_, rule, _ := strings.Cut(id.Name, separator)
			next.patterns = next.patterns.Without(id.target(), rule)
			if o, ok := e.Put.(Override); ok {
				next.putPattern(o, revision)
			}
		case id.Kind != Bans || err != nil:
		case e.Put == nil:
			banned.Delete(network)
		default:
			ban, _ := e.Put.(Ban)
			banned.Put(network, endOf(ban.Until))
		}
	}
	next.networks = banned.Table()
	if count := next.patterns.Len(); count > MaxPatterns {
		return nil, &Error{Where: "overrides", Problem: fmt.Sprintf("%d patterns, at most %d", count, MaxPatterns), Hint: "delete some that have ended, or use plans for large groups"}
	}
	return next, nil
}

// addKey adds the key of the entry that a record is about.
func (m *memory) addKey(id ID) {
	key, _, subject := strings.Cut(id.target(), "=")
	if _, known := m.keys[key]; known || !subject || id.Kind != Bans && id.Kind != Overrides && id.Kind != Subjects && id.Kind != Grants {
		return
	}
	m.keys = maps.Clone(m.keys)
	m.keys[key] = struct{}{}
}

// isPattern reports whether the record is an override with a pattern.
func (id ID) isPattern() bool { return id.Kind == Overrides && strings.Contains(id.target(), "*") }

// target returns the target of an override, or the subject of a grant.
func (id ID) target() string {
	target, _, _ := strings.Cut(id.Name, separator)
	return target
}

func (m *memory) putPattern(o Override, revision uint64) {
	o.Why = "" // decisions do not need it
	m.patterns = m.patterns.With(o.Target, o.Rule, revision, o)
}
