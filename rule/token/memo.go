package token

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"
	"time"
)

// slots is how many verified tokens are remembered; a power of two.
const slots = 1 << 10

// memo remembers tokens that were verified, because a client sends the same one with
// every request and a signature takes long. Each token has one place, which it may
// lose to another; only tokens that are good get there, so strangers drive nobody out.
// It is safe for concurrent use.
type memo [slots]atomic.Pointer[verified]

// verified is a token that was verified, and what it says.
type verified struct {
	sum   [sha256.Size]byte // of the token
	claim string            // the name
	keys  *Keys             // that were known then
	until time.Time         // when it expires
	text  string
}

func (m *memo) at(sum *[sha256.Size]byte) *atomic.Pointer[verified] {
	return &m[binary.LittleEndian.Uint16(sum[:])%slots]
}

// find returns what a token said when it was verified. It knows nothing of a token
// that has expired since, or if the keys are others by now.
func (m *memo) find(sum *[sha256.Size]byte, claim string, keys *Keys) (string, bool) {
	v := m.at(sum).Load()
	if v == nil || v.sum != *sum || v.claim != claim || v.keys != keys || !time.Now().Before(v.until) {
		return "", false
	}
	return v.text, true
}
