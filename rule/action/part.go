package action

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"stint/internal/urlpath"
)

// Part describes what one action of a list reads, for checks of the rules.
type Part struct {
	Name string // name of the action
	Key  string // key of the entry

	// Reads is the source of the value as text, such as "header x-user".
	Reads string

	// From is who controls the value.
	From From

	// Always means that every request has a value. Optional means that a request without a value
	// has a descriptor without the entry, instead of no descriptor.
	Always, Optional bool

	// Values are all possible values; nil if they are unlimited.
	Values []string

	// First are the alternatives of first_of, one of which makes the entry. Then only Always
	// describes the part itself.
	First []Part

	hashed bool
	paths  urlpath.Options
}

// From is who controls the value of an entry.
type From uint8

// The sources of values, the most reliable first.
const (
	// FromFile: the rule file has the values, and a request selects one.
	FromFile From = iota
	// FromNetwork: the address of the client.
	FromNetwork
	// FromProof: a verified value, such as a claim of a signed token.
	FromProof
	// FromClaim: a value that the client states about itself and that is not verified.
	FromClaim
	// FromWish: what the client asks for; it can be anything.
	FromWish
)

// Parts returns what the actions read, in order.
func (l *List) Parts() []Part { return partsOf(l.actions) }

func partsOf(actions []action) []Part {
	all := make([]Part, 0, len(actions))
	for i := range actions {
		p := actions[i].part()
		if r := actions[i].record; r != nil && r.planKey != "" {
			all = append(all, Part{Name: p.Name, Key: r.planKey, Reads: "plan of the " + p.Reads, From: FromProof, Optional: true})
		}
		all = append(all, p)
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
			p.From = FromClaim // an IPv6 host can use every address of its /64
		}
	case "bearer_claim", "tls_client_certificate", "device", "identity":
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
		if a.record != nil {
			p.From = FromProof
		}
	}
	return p
}

// May reports whether the part can have that value, and why not otherwise.
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
			return fmt.Sprintf("a path is compared in its normalized form, %s", clean), false
		}
	case "host":
		name, _, port := strings.Cut(value, ":")
		if clean := strings.TrimSuffix(strings.ToLower(name), "."); !strings.HasPrefix(value, "[") && (port || clean != value) {
			return "a host is compared in lower case and without its port: " + clean, false
		}
	}
	switch {
	case p.Values != nil && !slices.Contains(p.Values, value):
		return fmt.Sprintf("%s produces only %s", p.Name, list(p.Values)), false
	case p.hashed && !isHash(value):
		return fmt.Sprintf("%s produces the SHA-256 of a secret in hexadecimal: printf %%s SECRET | sha256sum", p.Name), false
	}
	return "", true
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// mayAddress reports whether remote_address can have that value: an address, or an IPv6 network.
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
		return "remote_address produces an address, such as 192.0.2.7", false
	case prefix.Addr().Is4():
		return "remote_address produces single addresses; masked_remote_address produces networks, and exempt and deny accept lists of them", false
	case prefix.Masked().String() != value:
		return "the network is written " + prefix.Masked().String(), false
	}
	return "", true
}

func isHash(value string) bool {
	return len(value) == 64 && strings.Trim(value, "0123456789abcdef") == ""
}

// list joins a few values.
func list(values []string) string {
	const most = 5
	if len(values) > most {
		return strings.Join(values[:most], ", ") + fmt.Sprintf(" and %d more", len(values)-most)
	}
	return strings.Join(values, ", ")
}
