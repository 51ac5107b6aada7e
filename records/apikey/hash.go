package apikey

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
)

// Hash is the SHA-256 of the text of a key: what `printf %s KEY | sha256sum` prints. As a key has
// 128 random bits, its hash does not reveal it.
//
// A look-up in a map or a database takes a time that may depend on the hash. This is safe: a client
// cannot choose a text whose hash begins as another one. To compare two hashes, use [Hash.Equal].
type Hash [sha256.Size]byte

var errHash = errors.New("the hash of an API key has 64 hexadecimal digits")

// sum returns the hash of the text of a key. It allocates no memory.
func sum(text string) Hash {
	var room [maxLen]byte // on the stack
	return sha256.Sum256(room[:copy(room[:], text)])
}

// Equal compares two hashes in a time that does not depend on them.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// String returns the hash as 64 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText returns the hash as 64 hexadecimal digits.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hexadecimal digits. On an error it leaves the hash as it was.
func (h *Hash) UnmarshalText(text []byte) error {
	var read Hash
	if len(text) != hex.EncodedLen(len(read)) {
		return errHash
	}
	if _, err := hex.Decode(read[:], text); err != nil {
		return errHash // without the text: it may be a key
	}
	*h = read
	return nil
}
