package rule

import (
	"net/netip"
	"regexp"
	"strings"

	"stint/internal/route"
)

// Attributes is what the actions of a domain read of an HTTP request: Method; Path
// as it was sent, without the query; Query and Header, the first value of that name
// and whether there is one; and RemoteAddress, the client's after trusted proxies,
// or the invalid address where it is not known.
type Attributes interface {
	Method() string
	Path() string
	Query(name string) (value string, ok bool)
	Header(name string) (value string, ok bool)
	RemoteAddress() netip.Addr
}

// httpLimit is one element of http.rate_limits: the actions of one descriptor.
type httpLimit struct {
	actions []action
	line    int
}

// action adds one entry to a descriptor.
type action struct {
	name string // as the file writes it, for messages
	key  string // of the entry
	// value reads the entry's value; false where the request has nothing to say.
	value func(a Attributes) (string, bool)
	// optional: where there is no value the entry is left out, rather than the
	// whole descriptor.
	optional bool
}

// Describe appends to dst the descriptors of a request, one for each element of
// http.rate_limits whose actions all have something to say. An attribute that is
// missing never becomes an empty value, so strangers do not share a bucket.
//
// The memory of dst, up to its capacity and with that of the entries, is reused.
func (d *Domain) Describe(dst []Descriptor, a Attributes) []Descriptor {
	for i := range d.http {
		n := len(dst)
		if n < cap(dst) {
			dst = dst[:n+1]
		} else {
			dst = append(dst, Descriptor{})
		}
		entries, ok := d.http[i].describe(dst[n].Entries[:0], a)
		dst[n].Entries = entries
		if !ok || len(entries) == 0 {
			dst = dst[:n]
		}
	}
	return dst
}

func (h *httpLimit) describe(entries []Entry, a Attributes) ([]Entry, bool) {
	for i := range h.actions {
		act := &h.actions[i]
		value, ok := act.value(a)
		if ok {
			entries = append(entries, Entry{Key: act.key, Value: value})
		} else if !act.optional {
			return entries, false
		}
	}
	return entries, true
}

// The values of the actions.

// constant always says the same.
func constant(value string) func(Attributes) (string, bool) {
	return func(Attributes) (string, bool) { return value, true }
}

// method says the method as it was sent: methods differ by case.
func method(a Attributes) (string, bool) { return a.Method(), a.Method() != "" }

// path says the path in its one spelling.
func path(a Attributes) (string, bool) { return route.Clean(a.Path()), true }

// header says the value of a header that is there and not empty.
func header(name string) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		value, ok := a.Header(name)
		return value, ok && value != ""
	}
}

// query says the value of a query parameter that is there and not empty.
func query(name string) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		value, ok := a.Query(name)
		return value, ok && value != ""
	}
}

// pattern says the pattern that the request belongs to.
func pattern(set *route.Set) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) { return set.Match(a.Method(), route.Clean(a.Path())) }
}

// network says the client's network, as CIDR where it is more than one address or
// always is set.
func network(v4, v6 int, always bool) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		addr := a.RemoteAddress().Unmap().WithZone("")
		bits := v6
		if addr.Is4() {
			bits = v4
		}
		if !addr.IsValid() {
			return "", false
		}
		if bits == addr.BitLen() && !always {
			return addr.String(), true
		}
		prefix, err := addr.Prefix(bits)
		return prefix.String(), err == nil
	}
}

// matched says a fixed value where the headers match, or where they do not.
func matched(matchers []matcher, expect bool, value string) func(Attributes) (string, bool) {
	return func(a Attributes) (string, bool) {
		for i := range matchers {
			if !matchers[i].matches(a) {
				return value, !expect
			}
		}
		return value, expect
	}
}

// matcher is a condition on one header.
type matcher struct {
	name   string
	test   func(value string) bool // nil: the header is there
	absent bool                    // with no test: the header is not there
	invert bool
	fold   bool // ignore case
}

// matches is Envoy's rule: a header that is missing matches only a test for being
// missing.
func (m *matcher) matches(a Attributes) bool {
	value, ok := a.Header(m.name)
	switch {
	case m.test == nil:
		return ok != (m.absent != m.invert)
	case !ok:
		return false
	}
	if m.fold {
		value = strings.ToLower(value)
	}
	return m.test(value) != m.invert
}

// tests make a header's test from the text of the file.
var tests = map[string]func(text string) (func(string) bool, error){
	"exact": func(t string) (func(string) bool, error) { return func(v string) bool { return v == t }, nil },
	"prefix": func(t string) (func(string) bool, error) {
		return func(v string) bool { return strings.HasPrefix(v, t) }, nil
	},
	"suffix": func(t string) (func(string) bool, error) {
		return func(v string) bool { return strings.HasSuffix(v, t) }, nil
	},
	"contains": func(t string) (func(string) bool, error) {
		return func(v string) bool { return strings.Contains(v, t) }, nil
	},
	"regex": func(t string) (func(string) bool, error) {
		if _, err := regexp.Compile(t); err != nil {
			return nil, err
		}
		re, err := regexp.Compile(`\A(?:` + t + `)\z`) // the whole value, as Envoy has it
		return re.MatchString, err
	},
}
