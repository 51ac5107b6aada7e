package token

import (
	"encoding/base64"
	"strings"
)

// The most memory that a decoded value takes, in bytes: a member of an object, an element of an
// array, an array or object itself.
const (
	memberCost  = 160
	elementCost = 90
	nestedCost  = 100
)

// modest reports whether decoding a token takes little memory. It is called before the signature is
// verified: a client can send a token of thousands of empty arrays, which take thirty times its
// size. Real tokens have far fewer values.
func modest(token string) bool {
	header, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	const perByte, atLeast, fixed = 8, 32 << 10, 4
	return valuesCost(header)+valuesCost(payload) <= max(atLeast, perByte*len(token))-fixed*len(token)
}

// valuesCost returns the memory for the values of one part of a token. It returns 0 if the part is
// not base64, because then the part is never decoded.
func valuesCost(part string) (cost int) {
	var space [maxBytes]byte
	n, err := base64.RawURLEncoding.Decode(space[:], []byte(part))
	if err != nil {
		return 0
	}
	quoted := false
	text := space[:n]
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ':':
			cost += memberCost
		case c == ',':
			cost += elementCost
		case c == '[' || c == '{':
			cost += nestedCost
		}
	}
	return cost
}
