package rule

import (
	"slices"

	"stint/rule/action"
)

// Attributes is what the actions of a domain read of an HTTP request: Method; Path
// as it was sent, without the query; Query and Header, the first value of that name
// and whether there is one; and RemoteAddress, the client's after trusted proxies,
// or the invalid address where it is not known.
type Attributes = action.Attributes

// Connection is what Attributes may know besides: Host, the name that the client
// asked for, with its port if it has one; Values, all values of a header in their
// order; PeerCertificate, the client's certificate if the server has verified it,
// else nil; and TrustedPeer, whether a trusted proxy brought the request.
type Connection = action.Connection

// Responder is what Attributes may be besides: a request whose answer can carry the
// cookies of devices.
type Responder = action.Responder

// Sizer is what Attributes may know besides: the size of the body, for `cost:
// {body: SIZE}`.
type Sizer = action.Sizer

// Parameters is what Attributes may know besides: all values of a query parameter,
// for `cost: {query: NAME}`.
type Parameters = action.Parameters

// CostError is what Describe returns for a request that names a cost which is none.
type CostError = action.CostError

// PathError is what Describe returns for a request whose path may be too many others.
type PathError = action.PathError

// HTTPLimit is one element of http.rate_limits. It must not be changed.
type HTTPLimit struct {
	// Actions make the descriptor. With Groups they make one for each group that a
	// request is in, from the outermost in.
	Actions *action.List
	Groups  bool

	// Cost is what a request costs; nil is one unit.
	Cost *action.Cost

	// Line is where it stands in the file of the domain, and Text what stands there, as
	// JSON: who compares two files sees every word.
	Line int
	Text string

	// readsPath: the descriptors depend on how the path is read.
	readsPath bool
}

// HTTP returns the elements of http.rate_limits. The slice must not be changed.
func (d *Domain) HTTP() []HTTPLimit { return d.http }

// Paths says how the paths of requests are read.
func (d *Domain) Paths() action.Paths { return d.paths }

// Describe appends to dst the descriptors of a request, one for each element of
// http.rate_limits whose actions all have something to say, and for groups one for
// each of them down to the first that has nothing. An attribute that is missing never
// becomes an empty value, so strangers do not share a bucket. Where servers may take a
// path for others there are descriptors for each of these as well.
//
// The error is a [*CostError] or a [*PathError]: the request names a cost that is none,
// or a path that may be too many others. Such a request is a mistake of whoever sent it,
// and none of its descriptors counts.
//
// The memory of dst, up to its capacity and with that of the entries, is reused.
func (d *Domain) Describe(dst []Descriptor, a Attributes) ([]Descriptor, error) {
	before := len(dst)
	first, others, err := d.readPath(a)
	if err != nil {
		return dst, err
	}
	for i := range d.http {
		h, n := &d.http[i], len(dst)
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

// readPath returns the readings of the path, where anything depends on them.
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

// describe appends the descriptors of one element, by one reading of the path.
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

// withoutDoubles leaves out those of the descriptors from m on that stand from n on
// already, and gives these the larger cost.
func withoutDoubles(dst []Descriptor, n, m int) []Descriptor {
	for j := m; j < len(dst); {
		k := slices.IndexFunc(dst[n:m], func(first Descriptor) bool { return slices.Equal(first.Entries, dst[j].Entries) })
		if k < 0 {
			j++
			continue
		}
		dst[n+k].Cost = max(dst[n+k].Cost, dst[j].Cost)
		last := len(dst) - 1
		dst[j], dst[last] = dst[last], dst[j] // with its memory
		dst = dst[:last]
	}
	return dst
}

// grown returns dst with one more descriptor, whose entries are memory to reuse.
func grown(dst []Descriptor) []Descriptor {
	if len(dst) < cap(dst) {
		return dst[:len(dst)+1]
	}
	return append(dst, Descriptor{})
}

// nested makes of the last descriptor one for each beginning of its entries, the
// shortest first.
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
