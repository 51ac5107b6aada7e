// Package seal encrypts the records of the queue with AES-256-GCM.
//
// A key file has one key a line: 32 random bytes in base64 or in hexadecimal, as `openssl rand -base64 32`
// prints them. Empty lines and lines that begin with # are skipped. The first key encrypts; all decrypt. To
// rotate, write a new key above the old one, and remove the old one when no record needs it any more.
//
// A line with the word plain lets records pass that were stored before there was a key. Without it they are
// reported and kept, because whoever can write into the storage could otherwise forge them.
//
// A sealed value is the byte 1, 8 bytes that identify the key, 12 bytes of nonce, and the ciphertext with
// its tag. The ID of the record and the name of the field are authenticated with it, so that no value can
// be moved to another place.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
)

const (
	sealed     = 1 // first byte of a sealed value
	keyBytes   = 32
	idBytes    = 8
	nonceBytes = 12
	headBytes  = 1 + idBytes + nonceBytes

	// maxFile is the size of the largest key file that is read.
	maxFile = 64 << 10
)

// ErrKey means that a value is encrypted with a key that the file does not have.
var ErrKey = errors.New("encrypted with an unknown key")

// ErrDamaged means that a value is not what was written, or stands in another place.
var ErrDamaged = errors.New("damaged: decryption failed")

// Keys encrypt and decrypt. A nil *Keys leaves values as they are. Keys are safe for concurrent use.
type Keys struct {
	first string // ID of the key that encrypts
	byID  map[string]cipher.AEAD
	plain bool // also accept what is not encrypted
}

// Load reads a key file.
func Load(path string) (*Keys, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("queue_key_file: %w", err)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("queue_key_file %s: %d bytes; a key file has one key a line", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("queue_key_file: %w", err)
	}
	keys, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("queue_key_file %s: %w", path, err)
	}
	return keys, nil
}

// Parse reads the contents of a key file. Its errors contain no part of a key.
func Parse(data []byte) (*Keys, error) {
	k := &Keys{byID: map[string]cipher.AEAD{}}
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if text == "plain" {
			k.plain = true
			continue
		}
		if err := k.add(text); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if k.first == "" {
		return nil, errors.New("no key; write one: openssl rand -base64 32")
	}
	return k, nil
}

func (k *Keys) add(text string) error {
	key, ok := parseKey(text)
	if !ok {
		return errors.New("not a key: a key is 32 bytes in base64 or hexadecimal (openssl rand -base64 32)")
	}
	if bytes.Count(key, key[:1]) == len(key) {
		return errors.New("not a random key: all its bytes are the same")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(append([]byte("stint queue key "), key...))
	id := string(sum[:idBytes])
	if _, has := k.byID[id]; has {
		return errors.New("the same key twice")
	}
	if k.first == "" {
		k.first = id
	}
	k.byID[id] = aead
	return nil
}

func parseKey(text string) ([]byte, bool) {
	if key, err := hex.DecodeString(text); err == nil && len(key) == keyBytes {
		return key, true
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if key, err := encoding.DecodeString(text); err == nil && len(key) == keyBytes {
			return key, true
		}
	}
	return nil, false
}

// Seal encrypts a field of a record.
func (k *Keys) Seal(record, field string, plain []byte) []byte {
	if k == nil {
		return plain
	}
	out := make([]byte, headBytes, headBytes+len(plain)+16)
	out[0] = sealed
	copy(out[1:], k.first)
	nonce := out[1+idBytes : headBytes]
	_, _ = rand.Read(nonce) // never fails
	return k.byID[k.first].Seal(out, nonce, plain, place(record, field))
}

// ErrPlain means that a value is not encrypted, although there is a key file.
var ErrPlain = errors.New("not encrypted; if it was stored before there was a key file, add the line plain to that file")

// Open decrypts a field of a record. The error wraps ErrKey, ErrPlain or ErrDamaged.
func (k *Keys) Open(record, field string, value []byte) ([]byte, error) {
	if len(value) == 0 || value[0] != sealed {
		if k != nil && !k.plain {
			return nil, ErrPlain
		}
		return value, nil
	}
	if len(value) < headBytes {
		return nil, ErrDamaged
	}
	id := string(value[1 : 1+idBytes])
	if k == nil {
		return nil, fmt.Errorf("%w (%x); name the file that has it with queue_key_file", ErrKey, id)
	}
	aead, ok := k.byID[id]
	if !ok {
		return nil, fmt.Errorf("%w (%x); put the key back into the key file, below the first", ErrKey, id)
	}
	plain, err := aead.Open(nil, value[1+idBytes:headBytes], value[headBytes:], place(record, field))
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}

func place(record, field string) []byte { return []byte(record + " " + field) }
