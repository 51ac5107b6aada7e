package apikey

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
)

const (
	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" // in the order of their bytes

	randomLen = 22 // base62 digits of 128 bits
	checkLen  = 6  // base62 digits of 32 bits
	shownLen  = 4  // digits that may be shown

	// MaxPrefix is the most characters of a prefix.
	MaxPrefix = 20

	minLen = 1 + len("_") + randomLen + checkLen
	maxLen = MaxPrefix + len("_") + randomLen + checkLen
)

// largest is 2^128-1. No key has a larger number.
const largest = "7n42DGM5Tflk9n8mt7Fhc7"

// Errors of this package. None of them contains a piece of a key.
var (
	ErrPrefix = errors.New("the prefix of an API key has 1 to 20 letters, digits and underscores; it begins with a letter and does not end with an underscore")
	ErrFormat = errors.New("this is not an API key: wrong length, or a character that no key has")
	ErrCheck  = errors.New("this API key is mistyped or invented: its check part does not match")
)

// Key describes a key without its text: the hash to look it up, and what may be shown. Two values
// are equal (==) if they describe the same key. The zero value describes no key.
type Key struct {
	hash      Hash
	shown     [shownLen]byte
	prefixLen uint8
	prefix    [MaxPrefix]byte
}

// Parse checks the text of a key as a client has sent it. The error is [ErrFormat] or [ErrCheck].
// Parse allocates no memory and keeps no reference to the text.
func Parse(text string) (Key, error) {
	if len(text) < minLen || len(text) > maxLen {
		return Key{}, ErrFormat
	}
	checked := text[:len(text)-checkLen]
	prefix, random := checked[:len(checked)-randomLen-1], checked[len(checked)-randomLen:]
	if checked[len(prefix)] != '_' || !isPrefix(prefix) || !isNumber(random) || random > largest {
		return Key{}, ErrFormat
	}
	// No secret is compared here: the caller could compute the check part from its own text.
	if want := checkPart(checked); text[len(checked):] != string(want[:]) {
		return Key{}, ErrCheck
	}
	k := Key{hash: sum(text), prefixLen: uint8(len(prefix))}
	copy(k.prefix[:], prefix)
	copy(k.shown[:], text[len(text)-shownLen:])
	return k, nil
}

// Hash returns the hash of the text, which is stored and looked up.
func (k Key) Hash() Hash { return k.hash }

// Prefix returns the prefix, without the underscore after it.
func (k Key) Prefix() string { return string(k.prefix[:k.prefixLen]) }

// LastFour returns the last four characters of the text, by which people recognize a key. They
// belong to the check part, so whoever sees them still has at least 104 bits to guess.
func (k Key) LastFour() string { return string(k.shown[:]) }

// String returns the prefix and the last four characters.
func (k Key) String() string {
	if k == (Key{}) {
		return "no key"
	}
	return k.Prefix() + "_..." + k.LastFour()
}

// LogValue returns the text of [Key.String].
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Secret is the text of a new key. Only [Secret.Reveal] returns the text; printing, logging and
// encoding a Secret, or a struct that contains one, give the text of [Key.String] or an address.
type Secret struct {
	text *string // a pointer, because package fmt prints unexported fields of structs without their methods
	key  Key
}

// New returns a new random key. The error is [ErrPrefix].
func New(prefix string) (Secret, error) {
	if len(prefix) > MaxPrefix || !isPrefix(prefix) {
		return Secret{}, ErrPrefix
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: it ends the program instead
	text := compose(prefix, random)
	key, err := Parse(text)
	return Secret{&text, key}, err
}

// compose returns the text of a key.
func compose(prefix string, random [16]byte) string {
	number := base62(random)
	checked := prefix + "_" + string(number[:])
	check := checkPart(checked)
	return checked + string(check[:])
}

// Reveal returns the text. Show it to the key's owner once, and store it nowhere.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Key returns what is known of the key without its text.
func (s Secret) Key() Key { return s.key }

// String returns the text of [Key.String].
func (s Secret) String() string { return s.key.String() }

// GoString returns the text of [Key.String].
func (s Secret) GoString() string { return s.key.String() }

// Format prints the text of [Key.String], whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.key.String()) }

// LogValue returns the text of [Key.String].
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.key.String()) }

// MarshalText returns the text of [Key.String].
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.key.String()), nil }

// isPrefix reports whether text can be a prefix, apart from its length.
func isPrefix(text string) bool {
	if text == "" || !isLetter(text[0]) || text[len(text)-1] == '_' {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c != '_' && !isDigit(c) {
			return false
		}
	}
	return true
}

// isNumber reports whether text has only base62 digits.
func isNumber(text string) bool {
	for i := range len(text) {
		if !isDigit(text[i]) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' }

// base62 returns a number of 128 bits, the most significant byte first, with leading zeros.
func base62(number [16]byte) (text [randomLen]byte) {
	for i := range text {
		rest := 0
		for j, b := range number {
			rest = rest<<8 | int(b)
			number[j], rest = byte(rest/len(digits)), rest%len(digits)
		}
		text[len(text)-1-i] = digits[rest]
	}
	return text
}

// checkPart returns the CRC-32 (IEEE) of a text, with leading zeros.
func checkPart(text string) (check [checkLen]byte) {
	sum := ^uint32(0)
	for i := range len(text) { // crc32.ChecksumIEEE would allocate a copy of the text
		sum = crc32.IEEETable[byte(sum)^text[i]] ^ sum>>8
	}
	sum = ^sum
	for i := range check {
		check[len(check)-1-i] = digits[sum%uint32(len(digits))]
		sum /= uint32(len(digits))
	}
	return check
}
