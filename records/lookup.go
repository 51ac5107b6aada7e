package records

import (
	"bytes"
	"net/netip"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/records/apikey"
	"stint/records/index"
	"stint/records/trail"
)

// Known is what the records contain about one subject. It is immutable. It has no notes and no
// reasons, which decisions do not need; [File.Get] returns them.
type Known struct {
	// Subject is the record of the subject; nil if there is none.
	Subject *Subject

	ban       *Ban
	overrides []*Override // in order of precedence; also those that have ended

	// Grants are the grants of the subject, as they are used; also those that have ended or not begun.
	Grants []index.Grant
}

// Empty reports whether the subject has no ban, no override, no grant and no plan, not even one that has ended.
func (k *Known) Empty() bool {
	return k.ban == nil && len(k.overrides)+len(k.Grants) == 0 && (k.Subject == nil || k.Subject.Plan == "" && k.Subject.Next.From.IsZero() && k.Subject.Subscribed.IsZero())
}

// Ban returns the ban of the subject at a time; nil if there is none.
func (k *Known) Ban(now time.Time) *Ban {
	if k.ban != nil && k.ban.InForce(now) {
		return k.ban
	}
	return nil
}

// Override returns the override of a rule at a time; nil if there is none.
func (k *Known) Override(rule string, now time.Time) *Override {
	for _, o := range k.overrides {
		if o.Rule == rule && o.InForce(now) {
			return o
		}
	}
	return nil
}

// Mentions reports whether entries with this key may have a ban, an override, a grant or a plan. Where it returns
// false, no such entry needs a [File.Lookup] for these.
func (f *File) Mentions(key string) bool {
	_, ok := f.memory.Load().keys[key]
	return ok
}

// entryName is a subject as an entry.
type entryName struct{ key, value string }

// maxCached is the most bytes of a Known in the cache, so that 10,000 of them are at most 40 MB.
const maxCached = 4 << 10

// Lookup returns what the records contain about the subject of an entry. It sees each change that was
// made before; one that is made meanwhile may be seen in part.
func (f *File) Lookup(key, value string) (*Known, error) {
	n := entryName{key, value}
	if known, ok := f.subjects.Get(n); ok {
		return known, nil
	}
	m := f.memory.Load()
	known := new(Known)
	if strings.Contains(key, "=") { // no record can name it
		return known, nil
	}
	// A longer text, or one with a star, can only match patterns.
	exact := len(key)+1+len(value) <= MaxSubject && !strings.Contains(value, "*")
	if exact {
		if err := f.view(func(tx *bolt.Tx) error { return f.known(tx, key+"="+value, known) }); err != nil {
			return nil, err
		}
	}
	for o := range m.patterns.Match(key, value) {
		known.overrides = append(known.overrides, o)
	}
	if exact && known.size()+len(key)+len(value) <= maxCached {
		f.subjects.Add(entryName{strings.Clone(key), strings.Clone(value)}, known, func() bool { return f.memory.Load() == m })
	}
	return known, nil
}

// known reads what the file has about exactly this subject.
func (f *File) known(tx *bolt.Tx, subject string, k *Known) error {
	name := []byte(subject)
	if value := tx.Bucket(bucketOf(Subjects)).Get(name); value != nil {
		v, err := decode[stored[Subject]](f, name, value)
		if err != nil {
			return err
		}
		v.Record.Notes = ""
		k.Subject = &v.Record
	}
	if value := tx.Bucket(bucketOf(Bans)).Get(name); value != nil {
		v, err := decode[stored[Ban]](f, name, value)
		if err != nil {
			return err
		}
		v.Record.Why = ""
		k.ban = &v.Record
	}
	err := eachOf(tx, Overrides, subject, func(name, value []byte) error {
		v, err := decode[stored[Override]](f, name, value)
		v.Record.Why = ""
		k.overrides = append(k.overrides, &v.Record)
		return err
	})
	if err == nil {
		k.Grants, err = f.readGrants(tx, subject)
	}
	return err
}

// eachOf calls do for the overrides, or the grants, of a target until it returns an error.
func eachOf(tx *bolt.Tx, kind Kind, target string, do func(name, value []byte) error) (err error) {
	prefix := []byte(target + separator)
	c := tx.Bucket(bucketOf(kind)).Cursor()
	for name, value := c.Seek(prefix); err == nil && bytes.HasPrefix(name, prefix); name, value = c.Next() {
		err = do(name, value)
	}
	return err
}

// size returns about how many bytes k takes.
func (k *Known) size() int {
	const each = 150 // of a record without its texts
	size := each
	if k.Subject != nil {
		size += each + len(k.Subject.Name) + len(k.Subject.Plan)
		for _, group := range k.Subject.Groups {
			size += 16 + len(group)
		}
	}
	if k.ban != nil {
		size += each + len(k.ban.Subject)
	}
	for _, o := range k.overrides {
		size += each + len(o.Target) + len(o.Rule)
	}
	for i := range k.Grants {
		size += each + len(k.Grants[i].Name) + len(k.Grants[i].Limit)
	}
	return size
}

// BannedAddress reports whether an address is banned at a time, and until when. The zero time means
// that the ban has no end. If several bans apply, it is the end of the last of them.
func (f *File) BannedAddress(addr netip.Addr, now time.Time) (until time.Time, banned bool) {
	if !addr.IsValid() {
		return until, false
	}
	end, ok := f.memory.Load().networks.End(addr.Unmap().WithZone(""))
	return index.InForce(end, ok, now)
}

// BannedNetwork reports whether a ban covers all addresses of a network at a time, and until when, as
// [File.BannedAddress] does for one address.
func (f *File) BannedNetwork(network netip.Prefix, now time.Time) (until time.Time, banned bool) {
	if !network.IsValid() {
		return until, false
	}
	end, ok := f.memory.Load().networks.EndOfNetwork(index.Unmap(network))
	return index.InForce(end, ok, now)
}

// Key returns the record of an API key that is valid at a time, without its reason; nil if there is
// none.
func (f *File) Key(hash apikey.Hash, now time.Time) (*APIKey, error) {
	k, ok := f.keys.Get(hash)
	if !ok {
		m := f.memory.Load()
		read := new(APIKey)
		err := f.view(func(tx *bolt.Tx) (err error) {
			*read, err = f.key(tx, hash)
			return err
		})
		if err != nil {
			return nil, err
		}
		if read.Last == "" {
			return nil, nil
		}
		read.Why = ""
		f.keys.Add(hash, read, func() bool { return f.memory.Load() == m })
		k = read
	}
	if !k.InForce(now) {
		return nil, nil
	}
	return k, nil
}

// publish puts a change in force that is on disk.
func (f *File) publish(next *memory, edits []Edit, head trail.Head) {
	f.memory.Store(next)
	f.head.Store(&head)
	// Later look-ups read the file again; those that read it before this do not add to the cache.
	for i := range edits {
		switch id := edits[i].id(); {
		case id.Kind == Rules, id.Kind == Plans:
		case id.isPattern():
			f.subjects.Clear()
		case id.Kind == APIKeys:
			var hash apikey.Hash
			if hash.UnmarshalText([]byte(id.Name)) == nil {
				f.keys.Drop(hash)
			}
		default:
			key, value, _ := strings.Cut(id.target(), "=")
			f.subjects.Drop(entryName{key, value})
		}
	}
}
