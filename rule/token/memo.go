package token

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"time"
)

// slots is the number of verified tokens in the cache; a power of two.
const slots = 1 << 10

// memo caches verified tokens, because a client sends the same token with every request and
// verifying a signature is slow. Each token has one slot, where it replaces another token. Only
// valid tokens are stored, so invalid ones evict nothing. A memo is safe for concurrent use.
type memo [slots]atomic.Pointer[verified]

// verified is a verified token and one of its claims.
type verified struct {
	sum   [sha256.Size]byte // hash of the token
	claim string            // value of the claim
	keys  *Keys             // keys at the time of verification
	until time.Time         // expiry of the token, with the leeway
	text  string
}

func (m *memo) at(sum *[sha256.Size]byte) *atomic.Pointer[verified] {
	return &m[binary.LittleEndian.Uint16(sum[:])%slots]
}

// find returns the cached claim of a token. It returns false if the token has expired or the keys
// have changed since.
func (m *memo) find(sum *[sha256.Size]byte, claim string, keys *Keys) (string, bool) {
	v := m.at(sum).Load()
	if v == nil || v.sum != *sum || v.claim != claim || v.keys != keys || !time.Now().Before(v.until) {
		return "", false
	}
	return v.text, true
}
