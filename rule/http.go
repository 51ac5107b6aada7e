package rule

import "stint/rule/action"

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

// httpLimit is one element of http.rate_limits: the actions of one descriptor.
type httpLimit struct {
	actions *action.List
	cost    *action.Cost
	line    int
}

// Describe appends to dst the descriptors of a request, one for each element of
// http.rate_limits whose actions all have something to say. An attribute that is
// missing never becomes an empty value, so strangers do not share a bucket.
//
// The error is a [*CostError]: the request names a cost that is none. Such a request
// is a mistake of whoever sent it, and none of its descriptors counts.
//
// The memory of dst, up to its capacity and with that of the entries, is reused.
func (d *Domain) Describe(dst []Descriptor, a Attributes) ([]Descriptor, error) {
	before := len(dst)
	for i := range d.http {
		n := len(dst)
		if n < cap(dst) {
			dst = dst[:n+1]
		} else {
			dst = append(dst, Descriptor{})
		}
		entries, ok := d.http[i].actions.Describe(dst[n].Entries[:0], a)
		dst[n].Entries = entries
		if !ok {
			dst = dst[:n]
			continue
		}
		cost, err := d.http[i].cost.Of(a)
		if err != nil {
			return dst[:before], err
		}
		dst[n].Cost = cost
	}
	return dst, nil
}
