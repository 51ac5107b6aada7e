package action

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"stint/internal/urlpath"
)

// Part is what one action of a list reads of a request, for those who look for
// mistakes in rules.
type Part struct {
	Name string // of the action
	Key  string // of its entry

	// Reads is what is read of a request, for people, such as "header x-user".
	Reads string

	// From says who decides what the value is.
	From From

	// Always: every request has a value. Optional: one without it has a descriptor
	// without the entry, rather than none.
	Always, Optional bool

	// Values are all that there may be; nil: there is no end of them.
	Values []string

	// First are the actions of first_of, of which one makes the entry. All else is then
	// theirs, but Always.
	First []Part

	hashed bool
	paths  urlpath.Options
}

// From says who decides what the value of an entry is.
type From uint8

// From the most to the least that can be relied on.
const (
	// FromFile: the rule file itself; a request chooses among its values.
	FromFile From = iota
	// FromNetwork: where the client is.
	FromNetwork
	// FromProof: what was verified, such as a signed token.
	FromProof
	// FromClaim: what a client says of itself; nobody has checked it here.
	FromClaim
	// FromWish: what a client asks for, which is anything.
	FromWish
)

// Parts returns what the actions read, in their order.
func (l *List) Parts() []Part { return partsOf(l.actions) }

func partsOf(actions []action) []Part {
	all := make([]Part, len(actions))
	for i := range actions {
		all[i] = actions[i].part()
	}
	return all
}

func (a *action) part() Part {
	p := Part{Name: a.name, Key: a.key, Reads: strings.ReplaceAll(a.name, "_", " "), Optional: a.optional, Values: a.values, hashed: a.hashed, paths: a.paths.fold}
	if a.reads != "" {
		p.Reads = a.reads
	}
	switch a.name {
	case "first_of":
		p.First = partsOf(a.first)
		p.Always = slices.ContainsFunc(p.First, func(one Part) bool { return one.Always })
	case "generic_key":
		p.Always = true
	case "route":
		p.Always = slices.ContainsFunc(a.values, func(s string) bool { return s == "/" || strings.HasPrefix(s, "/{") && strings.HasSuffix(s, "...}") })
	case "remote_address", "masked_remote_address":
		p.From, p.Always = FromNetwork, true
		if a.narrow {
			p.From = FromClaim // each host of IPv6 has a whole /64 to choose from
		}
	case "bearer_claim", "tls_client_certificate", "device":
		p.From = FromProof
	case "path", "method", "host":
		p.From, p.Always = FromWish, true
	case "query_parameters":
		p.From = FromWish
	case "request_headers":
		p.From = FromClaim
		switch header := strings.TrimPrefix(strings.ToLower(a.reads), "header "); header {
		case ":path", ":method":
			p.Name, p.From, p.Always = header[1:], FromWish, true
		case ":authority", "host", "user-agent", "referer", "origin", "accept", "accept-language":
			p.From = FromWish
		}
	case "cookie", "api_key", "basic_auth_user":
		p.From = FromClaim
	}
	return p
}

// May reports whether the part may say that value, and if not, why.
func (p *Part) May(value string) (why string, ok bool) {
	switch p.Name {
	case "remote_address":
		return mayAddress(value)
	case "method":
		if upper := strings.ToUpper(value); upper != value && slices.Contains(methods, upper) {
			return "methods are in capitals: " + upper, false
		}
	case "path":
		if clean := urlpath.String(value, p.paths); clean != value {
			return fmt.Sprintf("a path is compared in its one spelling, %s", clean), false
		}
	case "host":
		name, _, port := strings.Cut(value, ":")
		if clean := strings.TrimSuffix(strings.ToLower(name), "."); !strings.HasPrefix(value, "[") && (port || clean != value) {
			return "a host is compared in lower case and without its port: " + clean, false
		}
	}
	switch {
	case p.Values != nil && !slices.Contains(p.Values, value):
		return fmt.Sprintf("%s says %s", p.Name, list(p.Values)), false
	case p.hashed && !isHash(value):
		return fmt.Sprintf("%s says the SHA-256 of a secret in hexadecimal: printf %%s SECRET | sha256sum", p.Name), false
	}
	return "", true
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// mayAddress reports whether remote_address may say a value: an address, or a network
// of IPv6.
func mayAddress(value string) (string, bool) {
	if addr, err := netip.ParseAddr(value); err == nil {
		if addr.Is4() && addr.String() == value {
			return "", true
		}
		return "an IPv6 client is the network of its /64, such as 2001:db8::/64", false
	}
	prefix, err := netip.ParsePrefix(value)
	switch {
	case err != nil:
		return "remote_address says an address, such as 192.0.2.7", false
	case prefix.Addr().Is4():
		return "remote_address says single addresses; masked_remote_address says networks, and exempt and deny take lists of them", false
	case prefix.Masked().String() != value:
		return "the network is written " + prefix.Masked().String(), false
	}
	return "", true
}

func isHash(value string) bool {
	return len(value) == 64 && strings.Trim(value, "0123456789abcdef") == ""
}

// list names a few values.
func list(values []string) string {
	const most = 5
	if len(values) > most {
		return strings.Join(values[:most], ", ") + fmt.Sprintf(" and %d more", len(values)-most)
	}
	return strings.Join(values, ", ")
}
