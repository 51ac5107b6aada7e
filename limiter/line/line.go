// Package line keeps requests that wait for a limit in lines: one for each rule and key.
package line

import "encoding/hex"

// ID identifies a line: a rule, and the hash of the key whose bucket the rule counts.
type ID struct {
	Domain, Rule string
	Key          [16]byte
}

// String returns the domain, the rule, and the hash in hexadecimal digits.
func (id ID) String() string { return id.Domain + " " + id.Rule + " " + hex.EncodeToString(id.Key[:]) }
