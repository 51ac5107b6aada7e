// Package action turns an HTTP request into descriptors, by the actions that rule
// files name.
//
// An action reads one thing of a request, such as its path or a header, and makes
// one [Entry] of it; a [List] of actions makes one descriptor. Where a request has
// nothing to say to an action there is no descriptor, rather than one with an empty
// value: strangers never share a bucket.
package action

import (
	"net/netip"
	"slices"
	"strings"

	"stint/internal/strictyaml"
)

// Entry is one (key, value) of a descriptor.
type Entry struct{ Key, Value string }

// Attributes is what actions read of an HTTP request: Method; Path as it was sent,
// without the query; Query and Header, the first value of that name and whether
// there is one; and RemoteAddress, the client's after trusted proxies, or the
// invalid address where it is not known.
type Attributes interface {
	Method() string
	Path() string
	Query(name string) (value string, ok bool)
	Header(name string) (value string, ok bool)
	RemoteAddress() netip.Addr
}

// List is the actions of one descriptor. It is immutable.
type List struct{ actions []action }

// Outside is where Read gets what is not in the rule file itself. Where its methods return
// nothing they have reported why to the document of the value.
type Outside interface {
	// Open returns the bytes of the file that a value names.
	Open(file strictyaml.Value) (data []byte, ok bool)

	// Verifier returns what verifies the bearer tokens of these terms, by the keys in the file
	// or at the address that a value names; nil where there is none.
	Verifier(keys strictyaml.Value, t TokenTerms) Verifier
}

// TokenTerms say which bearer tokens are accepted.
type TokenTerms struct {
	// Issuer and Audience are what the token's iss must be and its aud must hold; "": any.
	Issuer, Audience string
	// PlainHTTP: the keys may be fetched from an address without TLS.
	PlainHTTP bool
}

// Verifier verifies bearer tokens. It is called by many goroutines at once.
type Verifier interface {
	// Claim returns a claim of a token as text; false where the token is not verified, or
	// has no such claim.
	Claim(token, name string) (claim string, ok bool)
}

// action adds one entry to a descriptor.
type action struct {
	outside Outside // while it is read
	paths   Paths
	name    string // as the file writes it, for messages
	key     string // of the entry
	// value reads the entry's value; false where the request has nothing to say.
	value func(a Attributes) (string, bool)
	// ofPath reads it where it depends on the path, from one reading of that; value is nil
	// then.
	ofPath func(a Attributes, path string) (string, bool)
	// first are actions of which the first with a value makes the entry; value and ofPath
	// are nil then.
	first []action
	// verifier is that of bearer_claim, nil for others.
	verifier Verifier
	// device is the cookie of a device, nil for others.
	device *deviceCookie
	// What Parts tells beside: all values that there may be, nil where any text may;
	// whether it says a hash; whether a host of one IPv6 /64 has many values; what it reads,
	// where its name does not say it.
	values []string
	hashed bool
	narrow bool
	reads  string
	// optional: where there is no value the entry is left out, rather than the
	// whole descriptor.
	optional bool
}

// Describe appends to entries those of a request. It reports false where there is
// no descriptor, because an action found nothing; then there are those of the actions
// before it. path is one reading of the request's path, see [Paths]; a list that does not
// read it needs none.
func (l *List) Describe(entries []Entry, a Attributes, path string) ([]Entry, bool) {
	before := len(entries)
	for i := range l.actions {
		entry, ok := l.actions[i].entry(a, path)
		if ok {
			entries = append(entries, entry)
		} else if !l.actions[i].optional {
			return entries, false
		}
	}
	return entries, len(entries) > before
}

// ReadsPath reports whether a descriptor depends on how the path is read.
func (l *List) ReadsPath() bool { return slices.ContainsFunc(l.actions, action.readsPath) }

func (a action) readsPath() bool {
	return a.ofPath != nil || slices.ContainsFunc(a.first, action.readsPath)
}

func (a *action) entry(request Attributes, path string) (Entry, bool) {
	switch {
	case a.ofPath != nil:
		value, ok := a.ofPath(request, path)
		return Entry{Key: a.key, Value: value}, ok
	case a.value != nil:
		value, ok := a.value(request)
		return Entry{Key: a.key, Value: value}, ok
	}
	for i := range a.first {
		if e, ok := a.first[i].entry(request, path); ok {
			return e, true
		}
	}
	return Entry{}, false
}

// Keys returns the keys that each entry may have, in the order of the entries, up to
// the first that may be left out.
func (l *List) Keys() [][]string {
	var keys [][]string
	for i := range l.actions {
		if l.actions[i].optional {
			break
		}
		keys = append(keys, l.actions[i].keys())
	}
	return keys
}

// Verifiers appends to dst what verifies the bearer tokens of the actions.
func (l *List) Verifiers(dst []Verifier) []Verifier { return verifiers(dst, l.actions) }

func verifiers(dst []Verifier, actions []action) []Verifier {
	for i := range actions {
		if v := actions[i].verifier; v != nil {
			dst = append(dst, v)
		}
		dst = verifiers(dst, actions[i].first)
	}
	return dst
}

// Hashed appends to dst the keys of entries whose values are hashes of secrets, each once.
func (l *List) Hashed(dst []string) []string { return hashedKeys(dst, l.actions) }

func hashedKeys(dst []string, actions []action) []string {
	for i := range actions {
		if a := &actions[i]; a.hashed && !slices.Contains(dst, a.key) {
			dst = append(dst, a.key)
		}
		dst = hashedKeys(dst, actions[i].first)
	}
	return dst
}

// Cookies appends to dst the cookies of devices that the actions issue.
func (l *List) Cookies(dst []Cookie) []Cookie { return cookiesOf(dst, l.actions) }

func cookiesOf(dst []Cookie, actions []action) []Cookie {
	for i := range actions {
		if d := actions[i].device; d != nil {
			dst = append(dst, Cookie{d.name, d.file})
		}
		dst = cookiesOf(dst, actions[i].first)
	}
	return dst
}

// String returns the names of the actions and what is said beside them, for people
// and tests.
func (l *List) String() string {
	var b strings.Builder
	for i := range l.actions {
		b.WriteString(" " + l.actions[i].String())
	}
	return b.String()
}

func (a *action) String() string {
	if a.value == nil && a.ofPath == nil {
		return describeFirst(a.first)
	}
	text := a.name
	if a.key != a.name {
		text += " as " + a.key
	}
	if a.optional {
		text += " if present"
	}
	return text
}
