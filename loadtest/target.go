package loadtest

import (
	"crypto/tls"
	"errors"
	"strconv"
	"strings"
)

// Placeholder is replaced by the name of the key, in all texts that a target has.
const Placeholder = "{key}"

// Options are what all targets share. The zero value connects without encryption and token.
type Options struct {
	TLS    *tls.Config // nil: no encryption
	Token  string      // sent as HTTP and gRPC clients do (Authorization: Bearer), or by AUTH over RESP; "": none
	Prefix string      // begins the name of each key, before its number
}

// Descriptor is a request by rules.
type Descriptor struct {
	Domain  string
	Entries []Entry
}

// Entry is a key and a value of a descriptor; Value may have the placeholder.
type Entry struct{ Key, Value string }

// Named reports whether the name of the key is in one of the values. Otherwise all calls are about one key.
func (d Descriptor) Named() bool {
	for _, e := range d.Entries {
		if strings.Contains(e.Value, Placeholder) {
			return true
		}
	}
	return false
}

func (d Descriptor) check() error {
	if d.Domain == "" || len(d.Entries) == 0 {
		return errors.New("loadtest: a descriptor needs a domain and entries")
	}
	return nil
}

// phrase is a text with placeholders.
type phrase struct {
	pieces []string // the key is between them
	prefix string
}

func newPhrase(text, prefix string) phrase {
	return phrase{strings.Split(text, Placeholder), prefix}
}

// text returns the text for a key.
func (t phrase) text(key int) string {
	if len(t.pieces) == 1 {
		return t.pieces[0]
	}
	return strings.Join(t.pieces, t.prefix+strconv.Itoa(key))
}
