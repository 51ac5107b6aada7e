package rule

import (
	"net/netip"
	"slices"
	"strings"

	"stint/rule/action"
)

// Attributes is the part of an HTTP request that actions read. Path is as the client sent it,
// without the query. Header returns the first value of that name, and whether there is one; Query
// too, but the first value that is not empty, if there is one. RemoteAddress is the client's address
// behind trusted proxies, or the invalid address if it is not known.
type Attributes = action.Attributes

// Connection is optional for Attributes. Host is the name that the client asked for, with its
// port if it has one. Values returns all values of a header in order. PeerCertificate is the
// client's certificate if the server verified it, else nil. TrustedPeer reports whether a trusted
// proxy forwarded the request.
type Connection = action.Connection

// Responder is optional for Attributes: the answer to the request can set the cookies of devices.
type Responder = action.Responder

// Sizer is optional for Attributes: it returns the size of the body, for `cost: {body: SIZE}`.
type Sizer = action.Sizer

// Parameters is optional for Attributes: it returns all values of a query parameter, for `cost:
// {query: NAME}`.
type Parameters = action.Parameters

// KeyRecords is optional for Attributes: it knows whose API keys are, for `api_key: {from: records}`.
type KeyRecords = action.KeyRecords

// Authenticated is optional for Attributes: it returns the name that authentication proved, for the
// action identity.
type Authenticated = action.Authenticated

// Phase is when a server decides a request: its position relative to authentication.
type Phase uint8

// The phases. AnyPhase has all elements of http.rate_limits. A server that decides twice has those
// without the action identity in Early, before authentication, and those with it in Late, after
// authentication.
const (
	AnyPhase Phase = iota
	Early
	Late
)

// ErrKey is the error of Describe for a request whose API key is not valid, where the rules deny such
// requests.
var ErrKey = action.ErrKey

// CostError is the error of Describe for a request whose cost is not a valid number.
type CostError = action.CostError

// PathError is the error of Describe for a request whose path servers may read in too many ways.
type PathError = action.PathError

// HTTPLimit is one element of http.rate_limits. Callers must not change it.
type HTTPLimit struct {
	// Actions make the descriptor. If Groups is set they make one descriptor for each group that
	// the request is in, the outermost group first.
	Actions *action.List
	Groups  bool

	// Cost is the cost of a request; nil is one unit.
	Cost *action.Cost

	// Line is the element's line in the file of the domain. Text is the element as JSON, so that
	// two files can be compared word by word.
	Line int
	Text string

	// readsPath is set if the descriptors depend on how the path is read.
	readsPath bool

	// late is set if the descriptors depend on authentication.
	late bool
}

// in reports whether the element belongs to a phase.
func (h *HTTPLimit) in(p Phase) bool { return p == AnyPhase || h.late == (p == Late) }

// HTTP returns the elements of http.rate_limits. Callers must not change the slice.
func (d *Domain) HTTP() []HTTPLimit { return d.http }

// ReadsIdentity reports whether an element of http.rate_limits has the action identity, so that the
// phase Late is not empty.
func (d *Domain) ReadsIdentity() bool { return d != nil && d.readsIdentity }

// Paths returns how paths of requests are read.
func (d *Domain) Paths() action.Paths { return d.paths }

// NeedsRecords returns the place of the first action that needs the records of API keys. ok is false if
// there is none.
func (t *Table) NeedsRecords() (file string, line int, ok bool) {
	for _, d := range t.domains {
		for i := range d.http {
			if d.http[i].Actions.ReadsRecords() {
				return d.file, d.http[i].Line, true
			}
		}
	}
	return "", 0, false
}

// HoldsAddress reports whether values of this descriptor key are addresses of clients, or their
// networks. For a nil domain these are the keys that the actions have by default.
func (d *Domain) HoldsAddress(key string) bool {
	return key == "remote_address" || key == "masked_remote_address" || d != nil && slices.Contains(d.addresses, key)
}

// Network returns the network in the value of an entry, or the address as one, if values of its key are such (see HoldsAddress);
// the zero Prefix for any other entry or value.
func (d *Domain) Network(e Entry) netip.Prefix {
	if !d.HoldsAddress(e.Key) {
		return netip.Prefix{}
	}
	if strings.Contains(e.Value, "/") {
		network, _ := netip.ParsePrefix(e.Value)
		return network
	}
	addr, err := netip.ParseAddr(e.Value)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.WithZone("")
	return netip.PrefixFrom(addr, addr.BitLen())
}

// Describe appends to dst the descriptors of a request in a phase: one for each element of
// http.rate_limits of that phase whose actions all find a value. An element with groups gives one for each group, up to the
// first group without a value. A missing attribute never becomes an empty value, so unknown
// clients do not share a bucket. If servers may read the path in several ways, there are
// descriptors for each way.
//
// The error is a [*CostError], a [*PathError] or [ErrKey]: the client sent a bad cost, an ambiguous path
// or an API key that is not valid.
// Then dst is returned as it was.
//
// Describe reuses the memory of dst up to its capacity, including the entries there.
func (d *Domain) Describe(dst []Descriptor, a Attributes, p Phase) ([]Descriptor, error) {
	before := len(dst)
	if p == Late && !d.readsIdentity {
		return dst, nil
	}
	if d.deniesKeys && slices.ContainsFunc(d.http, func(h HTTPLimit) bool { return h.in(p) && h.Actions.Denies(a) }) {
		return dst, ErrKey
	}
	first, others, err := d.readPath(a)
	if err != nil {
		return dst, err
	}
	for i := range d.http {
		h, n := &d.http[i], len(dst)
		if !h.in(p) {
			continue
		}
		if dst, err = h.describe(dst, a, first); err != nil {
			return dst[:before], err
		}
		if !h.readsPath {
			continue
		}
		for _, path := range others {
			m := len(dst)
			if dst, err = h.describe(dst, a, path); err != nil {
				return dst[:before], err
			}
			dst = withoutDoubles(dst, n, m)
		}
	}
	return dst, nil
}

// readPath returns the ways in which servers may read the path, if any descriptor depends on it.
func (d *Domain) readPath(a Attributes) (first string, others []string, err error) {
	if !d.readsPath {
		return "", nil, nil
	}
	path := a.Path()
	if !d.paths.Unclear(path) {
		return d.paths.Read(path), nil, nil
	}
	all, err := d.paths.ReadAll(path)
	if err != nil {
		return "", nil, err
	}
	return all[0], all[1:], nil
}

// describe appends the descriptors of one element, for one way to read the path.
func (h *HTTPLimit) describe(dst []Descriptor, a Attributes, path string) ([]Descriptor, error) {
	n := len(dst)
	dst = grown(dst)
	entries, ok := h.Actions.Describe(dst[n].Entries[:0], a, path)
	dst[n].Entries = entries
	if !ok && !h.Groups || len(entries) == 0 {
		return dst[:n], nil
	}
	cost, err := h.Cost.Of(a, path)
	if err != nil {
		return dst, err
	}
	if h.Groups {
		dst = nested(dst)
	}
	for j := range dst[n:] {
		dst[n+j].Cost = cost
	}
	return dst, nil
}

// withoutDoubles removes descriptors from position m on that equal one at n to m-1. The one that
// stays gets the larger cost of the two.
func withoutDoubles(dst []Descriptor, n, m int) []Descriptor {
	for j := m; j < len(dst); {
		k := slices.IndexFunc(dst[n:m], func(first Descriptor) bool { return slices.Equal(first.Entries, dst[j].Entries) })
		if k < 0 {
			j++
			continue
		}
		dst[n+k].Cost = max(dst[n+k].Cost, dst[j].Cost)
		last := len(dst) - 1
		dst[j], dst[last] = dst[last], dst[j] // keeps the memory of the removed one
		dst = dst[:last]
	}
	return dst
}

// grown returns dst with one more descriptor, whose old entries are reused as memory.
func grown(dst []Descriptor) []Descriptor {
	if len(dst) < cap(dst) {
		return dst[:len(dst)+1]
	}
	return append(dst, Descriptor{})
}

// nested replaces the last descriptor by one for each prefix of its entries, the shortest first.
func nested(dst []Descriptor) []Descriptor {
	first := len(dst) - 1
	all := dst[first].Entries
	for n := 2; n <= len(all); n++ {
		dst = grown(dst)
		last := &dst[len(dst)-1]
		last.Entries = append(last.Entries[:0], all[:n]...)
	}
	dst[first].Entries = all[:1]
	return dst
}
