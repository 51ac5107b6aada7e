package records

import (
	"strings"
	"time"

	"stint/records/apikey"
)

// APIKey is what is stored of an API key: never the key itself.
type APIKey struct {
	Hash     apikey.Hash `json:"hash"`
	Last     string      `json:"last"`              // last four characters of the key, by which people recognize it
	Subject  string      `json:"subject"`           // the client that the key identifies, such as user=42
	Until    time.Time   `json:"until,omitzero"`    // when it expires; zero: never
	Replaces apikey.Hash `json:"replaces,omitzero"` // the key that it replaces; zero: none
	Why      string      `json:"why,omitempty"`
}

// ID returns the key's kind and name: its hash.
func (k APIKey) ID() ID { return ID{APIKeys, k.Hash.String()} }

// InForce reports whether the key is valid at a time.
func (k *APIKey) InForce(now time.Time) bool { return inForce(k.Until, now) }

// Replacement returns k as the replacement of the key old, and old with its end. Both are valid
// until then. Store both in one change, old first.
func Replacement(old, k APIKey, until time.Time) (ending, next APIKey) {
	if inForce(old.Until, until) {
		old.Until = until
	}
	k.Subject, k.Replaces = old.Subject, old.Hash
	return old, k
}

func (k APIKey) check(c *checks) (Record, *Error) {
	id := k.ID()
	switch {
	case k.Hash == (apikey.Hash{}):
		return nil, id.fault("hash", "missing", "give the SHA-256 of the key")
	case len(k.Last) != 4 || strings.Trim(k.Last, base62) != "":
		return nil, id.fault("last", "not four letters and digits", "give the last four characters of the key, and no more")
	case k.Replaces == k.Hash:
		return nil, id.fault("replaces", "the key replaces itself", "make a new key")
	}
	err := firstFault(id.checkSubject("subject", k.Subject), id.checkText("why", k.Why), id.checkUntil("until", &k.Until, c.now))
	return k, err
}

// base62 are the characters of a key.
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
