package rule

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"sync"
)

// KeySecret keys the values of api_key and cookie in keys. These are SHA-256 hashes of
// secrets, and whoever reads a store could try out what they are hashes of; under a
// KeySecret a key holds their HMAC-SHA-256 instead, which nobody can try out who does not
// have the secret. Rules and lists go on holding the SHA-256: they are matched before.
//
// All nodes that share counts need the same one. It is safe for concurrent use.
type KeySecret struct {
	print string
	macs  sync.Pool // *mac
}

// mac is one computation under a KeySecret.
type mac struct {
	hash hash.Hash
	text [longValue]byte
	sum  [sha256.Size]byte
}

// NewKeySecret returns the KeySecret of these bytes, of which there should be at least 16
// that nobody can guess.
func NewKeySecret(secret []byte) *KeySecret {
	secret = slices.Clone(secret)
	s := &KeySecret{}
	s.macs.New = func() any { return &mac{hash: hmac.New(sha256.New, secret)} }
	s.print = hex.EncodeToString(s.Append(nil, "fingerprint of the namespace secret")[1:17])
	return s
}

// Fingerprint returns 32 hexadecimal digits by which nodes see that they have the same
// secret. It does not tell the secret and may be kept in a store.
func (s *KeySecret) Fingerprint() string { return s.print }

// Append appends to dst what stands in keys for a value that is the hash of a secret.
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

// AppendKeyed is [Rule.AppendKey] for a store whose keys hold no hashes of secrets: values
// of descriptor keys that an api_key or a cookie of the domain's http section makes stand in
// it under secret, whoever brings them. Where the rule itself names such a value its whole
// identity does. A nil secret leaves all as they are.
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

// HoldsSecrets says whether values of this descriptor key are hashes of secrets, which an
// api_key or a cookie of the domain's http section makes. A nil domain has none.
func (d *Domain) HoldsSecrets(key string) bool { return d != nil && slices.Contains(d.secrets, key) }

// HoldsSecrets says whether any domain has values that are hashes of secrets.
func (t *Table) HoldsSecrets() bool {
	return slices.ContainsFunc(t.domains, func(d *Domain) bool { return len(d.secrets) > 0 })
}

// markSecrets notes which values in keys are hashes of secrets, when all files are read.
func (t *Table) markSecrets() {
	for _, d := range t.domains {
		for i := range d.http {
			d.secrets = d.http[i].Actions.Hashed(d.secrets)
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
