// Package action turns an HTTP request into descriptors, with the actions of rule files.
//
// An action reads one attribute of a request, such as its path or a header, and makes one [Entry]
// of it; a [List] of actions makes one descriptor. If the request lacks the attribute there is no
// descriptor, instead of one with an empty value: unknown clients never share a bucket.
package action

import (
	"net/netip"
	"slices"
	"strings"

	"stint/internal/strictyaml"
)

// Entry is one (key, value) pair of a descriptor.
type Entry struct{ Key, Value string }

// Attributes are the parts of an HTTP request that actions read. Method and Path return the method
// and the path as sent, the path without the query. Header returns the first value of that name, and
// whether there is one; Query too, but the first value that is not empty, if there is one. RemoteAddress
// returns the client's address behind trusted proxies, or the invalid address if it is unknown.
type Attributes interface {
	Method() string
	Path() string
	Query(name string) (value string, ok bool)
	Header(name string) (value string, ok bool)
	RemoteAddress() netip.Addr
}

// List is the list of actions that make one descriptor. It is immutable.
type List struct{ actions []action }

// Outside gives Read access to files and verifiers. A method that fails reports why to the document
// of the value.
type Outside interface {
	// Open returns the content of the file that a value names.
	Open(file strictyaml.Value) (data []byte, ok bool)

	// Verifier returns a verifier of bearer tokens with these terms. keys is the file or the
	// address of the key set. It returns nil on failure.
	Verifier(keys strictyaml.Value, t TokenTerms) Verifier
}

// TokenTerms restrict which bearer tokens are accepted.
type TokenTerms struct {
	// Issuer is the required iss of a token, and Audience a required element of its aud; "" accepts
	// any.
	Issuer, Audience string
	// PlainHTTP allows fetching the keys without TLS.
	PlainHTTP bool
}

// Verifier verifies bearer tokens. It is safe for concurrent use.
type Verifier interface {
	// Claim returns a claim of a token as text. It returns false if the token cannot be verified or
	// has no such claim.
	Claim(token, name string) (claim string, ok bool)
}

// action adds one entry to a descriptor.
type action struct {
	outside Outside // set only while the action is being read
	paths   Paths
	name    string // name in the rule file, for messages
	key     string // key of the entry
	// value returns the value of the entry; false if the request has none.
	value func(a Attributes) (string, bool)
	// ofPath returns a value that depends on the path, from one reading of it. value is nil then.
	ofPath func(a Attributes, path string) (string, bool)
	// first are alternatives: the first one with a value makes the entry. value and ofPath are nil
	// then.
	first []action
	// verifier verifies the tokens of bearer_claim; nil for other actions.
	verifier Verifier
	// device is the cookie of a device action; nil for others.
	device *deviceCookie
	// record is set for an api_key with `from: records`.
	record *recordedKey
	// Further facts for Parts: values are all possible values (nil: any text); hashed means that
	// the value is a hash of a secret; narrow means that one IPv6 host can have many values; reads
	// is the source of the value if the name does not show it.
	values []string
	hashed bool
	narrow bool
	reads  string
	// authenticated is set for the action identity.
	authenticated bool
	// optional omits the entry, instead of the whole descriptor, if there is no value.
	optional bool
}

// Describe appends the entries of a request to entries. It returns false if there is no descriptor,
// because an action found no value; then it has appended the entries of the actions before that
// one. path is one reading of the request's path, see [Paths]; a list that does not read the path
// ignores it.
func (l *List) Describe(entries []Entry, a Attributes, path string) ([]Entry, bool) {
	before := len(entries)
	for i := range l.actions {
		if r := l.actions[i].record; r != nil && r.planKey != "" {
			entries = r.appendPlan(entries, a)
		}
		entry, ok := l.actions[i].entry(a, path)
		if ok {
			entries = append(entries, entry)
		} else if !l.actions[i].optional {
			return entries, false
		}
	}
	return entries, len(entries) > before
}

// ReadsPath reports whether the descriptor depends on how the path is read.
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

// Keys returns the possible keys of each entry, in order, up to the first optional entry.
func (l *List) Keys() [][]string {
	var keys [][]string
	for i := range l.actions {
		if r := l.actions[i].record; l.actions[i].optional || r != nil && r.planKey != "" {
			break
		}
		keys = append(keys, l.actions[i].keys())
	}
	return keys
}

// Verifiers appends the verifiers of the actions to dst.
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

// Hashed appends to dst the keys of entries whose values are hashes of secrets, without duplicates.
func (l *List) Hashed(dst []string) []string {
	return keysOf(dst, l.actions, func(a *action) bool { return a.hashed })
}

// Addresses appends to dst the keys of entries whose values are the client's address or its network,
// without duplicates.
func (l *List) Addresses(dst []string) []string {
	return keysOf(dst, l.actions, func(a *action) bool { return a.name == "remote_address" || a.name == "masked_remote_address" })
}

// keysOf appends to dst the keys of the actions that is selects, without duplicates.
func keysOf(dst []string, actions []action, is func(*action) bool) []string {
	for i := range actions {
		if a := &actions[i]; is(a) && !slices.Contains(dst, a.key) {
			dst = append(dst, a.key)
		}
		dst = keysOf(dst, actions[i].first, is)
	}
	return dst
}

// Cookies appends to dst the device cookies that the actions issue.
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

// String returns the names and options of the actions, for output and tests.
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
	if a.record != nil {
		text += a.record.String()
	}
	if a.optional {
		text += " if present"
	}
	return text
}
