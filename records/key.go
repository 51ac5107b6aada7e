package records

import (
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"stint/internal/text"
	"stint/records/apikey"
)

// APIKey is what is stored of an API key: never the key itself.
type APIKey struct {
	Hash       apikey.Hash `json:"hash"`
	Last       string      `json:"last"`                 // last four characters of the key, by which people recognize it
	Subject    string      `json:"subject"`              // the client that the key identifies, such as user=42
	Until      time.Time   `json:"until,omitzero"`       // when it expires; zero: never
	Replaces   apikey.Hash `json:"replaces,omitzero"`    // the key that it replaces; zero: none
	ReplacedBy apikey.Hash `json:"replaced_by,omitzero"` // the key that replaces it; zero: none
	Why        string      `json:"why,omitempty"`
}

// ID returns the key's kind and name: its hash.
func (k APIKey) ID() ID { return ID{APIKeys, k.Hash.String()} }

func (k APIKey) end() time.Time { return k.Until }

// InForce reports whether the key is valid at a time.
func (k *APIKey) InForce(now time.Time) bool { return inForce(k.Until, now) }

// Replacement returns k as the replacement of the key old, and old with its end. Both are valid
// until then. Store both in one change, old first.
func Replacement(old, k APIKey, until time.Time) (ending, next APIKey) {
	if inForce(old.Until, until) {
		old.Until = until
	}
	old.ReplacedBy, k.Subject, k.Replaces = k.Hash, old.Subject, old.Hash
	return old, k
}

func (k APIKey) check(c *checks) (Record, *Error) {
	id := k.ID()
	switch {
	case k.Hash == (apikey.Hash{}):
		return nil, id.fault("hash", "missing", "give the SHA-256 of the key")
	case len(k.Last) != 4 || strings.Trim(k.Last, base62) != "":
		return nil, id.fault("last", "not four letters and digits", "give the last four characters of the key, and no more")
	case k.Replaces == k.Hash, k.ReplacedBy == k.Hash:
		return nil, id.fault("replaces", "the key replaces itself", "make a new key")
	}
	err := firstFault(id.checkSubject(k.Subject), id.checkText("why", k.Why), id.checkUntil("until", &k.Until, c.now))
	return k, err
}

// base62 are the characters of a key.
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// checkReplacement checks that at most two keys of a chain of replacements are valid.
func (f *File) checkReplacement(tx *bolt.Tx, k *APIKey, now time.Time) error {
	before, err := f.key(tx, k.Hash)
	if err != nil {
		return err
	}
	refuse := func(problem, hint string) error {
		return &Error{Where: k.ID().String() + ": replaces", Problem: problem, Hint: hint, Err: ErrConflict}
	}
	if before.ReplacedBy != k.ReplacedBy {
		next, err := f.key(tx, before.ReplacedBy)
		switch {
		case err != nil:
			return err
		case next.Last != "" && next.InForce(now):
			return refuse("the key has another replacement already", "revoke that one first")
		}
	}
	if before.Replaces == k.Replaces || k.Replaces == (apikey.Hash{}) {
		return nil
	}
	old, err := f.key(tx, k.Replaces)
	if err != nil {
		return err
	}
	switch {
	case old.Last == "":
		return refuse("there is no key to replace", "make a key that replaces none")
	case old.ReplacedBy != k.Hash, old.Until.IsZero(), old.Subject != k.Subject:
		return refuse("the old key has no end, or names another replacement or subject", "end the old key in the same change, before the new one")
	}
	older, err := f.key(tx, old.Replaces)
	switch {
	case err != nil:
		return err
	case older.Last != "" && older.InForce(now):
		return refuse("two keys are valid already", "wait for the end of the older one, "+text.Shorten("..."+older.Last)+", or revoke it")
	}
	return nil
}

// key returns the record of an API key; without Last if there is none.
func (f *File) key(tx *bolt.Tx, hash apikey.Hash) (APIKey, error) {
	e, ok, err := f.get(tx, ID{APIKeys, hash.String()})
	if err != nil || !ok {
		return APIKey{}, err
	}
	k, _ := e.Record.(APIKey)
	return k, nil
}
