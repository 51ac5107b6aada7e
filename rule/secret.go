package rule

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"sync"
)

// KeySecret protects the values of api_key and cookie in keys. Rules and lists have the SHA-256 of
// such a value, and an attacker who can read the store could guess values and compare. With a
// KeySecret keys have the HMAC-SHA-256 of that hash instead, which nobody can compute without the
// secret.
//
// All nodes that share counts need the same secret. It is safe for concurrent use.
type KeySecret struct {
	secret []byte
	print  string
	macs   sync.Pool // *mac
}

// mac is the memory for one computation.
type mac struct {
	hash hash.Hash
	text [longValue]byte
	sum  [sha256.Size]byte
}

// NewKeySecret returns the KeySecret of these bytes: at least 16 that nobody can guess.
func NewKeySecret(secret []byte) *KeySecret {
	secret = slices.Clone(secret)
	s := &KeySecret{secret: secret}
	s.macs.New = func() any { return &mac{hash: hmac.New(sha256.New, secret)} }
	s.print = hex.EncodeToString(s.Append(nil, "fingerprint of the namespace secret")[1:17])
	return s
}

// Fingerprint returns 32 hexadecimal digits by which nodes check that they have the same secret.
// They do not reveal the secret and may be kept in a store.
func (s *KeySecret) Fingerprint() string { return s.print }

// Derive returns a secret of its own for a purpose, of 32 bytes. It is no protected form of any value:
// clients choose values, and see the protected forms of them where subjects are shown. So whatever must
// not be forged is made with a derived secret.
func (s *KeySecret) Derive(purpose string) []byte {
	h := hmac.New(sha256.New, []byte("stint, secret for "+purpose)) // as HKDF extracts: the secret is the text
	h.Write(s.secret)
	return h.Sum(nil)
}

// Append appends to dst the protected form of a value that is the hash of a secret.
func (s *KeySecret) Append(dst []byte, value string) []byte {
	m := s.macs.Get().(*mac)
	defer s.macs.Put(m)
	text := m.text[:0]
	if len(value) > longValue {
		sum := sha256.Sum256([]byte(value))
		text = append(text, sum[:]...)
	} else {
		text = append(text, value...)
	}
	m.hash.Reset()
	m.hash.Write(text)
	return append(append(dst, '*'), m.hash.Sum(m.sum[:0])...)
}

// Hash returns a hash of a key, from which nobody without the secret can guess the key. Without a secret it is the SHA-256.
func (s *KeySecret) Hash(key string) []byte {
	if s != nil {
		return s.Append(nil, key)[1:]
	}
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// AppendKeyed is [Rule.AppendKey] with hashes of secrets protected by a KeySecret: the values of
// descriptor keys that an api_key or cookie action of the domain produces, also if a client of
// another protocol sends them. If the rule itself names such a value, its whole identity is
// protected. A nil secret protects nothing.
func (r *Rule) AppendKeyed(dst []byte, entries []Entry, secret *KeySecret) []byte {
	if secret != nil && r.reveals {
		dst = secret.Append(append(dst, 'h'), r.identity)
	} else {
		dst = append(dst, r.identity...)
	}
	for _, i := range r.varies {
		if secret != nil && slices.Contains(r.secrets, i) {
			dst = secret.Append(dst, entries[i].Value)
		} else {
			dst = appendValue(dst, entries[i].Value)
		}
	}
	return dst
}

// HoldsSecrets reports whether values of this descriptor key are hashes of secrets, produced by
// an api_key or cookie action. It is false for a nil domain.
func (d *Domain) HoldsSecrets(key string) bool { return d != nil && slices.Contains(d.secrets, key) }

// HoldsSecrets reports whether any domain has values that are hashes of secrets.
func (t *Table) HoldsSecrets() bool {
	return slices.ContainsFunc(t.domains, func(d *Domain) bool { return len(d.secrets) > 0 })
}

// markSecrets sets which values of keys are hashes of secrets, and which are addresses. It needs all
// files of a domain.
func (t *Table) markSecrets() {
	for _, d := range t.domains {
		for i := range d.http {
			d.secrets = d.http[i].Actions.Hashed(d.secrets)
			d.addresses = d.http[i].Actions.Addresses(d.addresses)
		}
	}
	for _, r := range t.rules {
		d := t.byName[r.Domain]
		for i, l := range r.Path {
			if d.HoldsSecrets(l.Key) {
				r.secrets = append(r.secrets, i)
				r.reveals = r.reveals || l.Value != ""
			}
		}
	}
}
