package rule

import "stint/rule/action"

// Attributes is what the actions of a domain read of an HTTP request: Method; Path
// as it was sent, without the query; Query and Header, the first value of that name
// and whether there is one; and RemoteAddress, the client's after trusted proxies,
// or the invalid address where it is not known.
type Attributes = action.Attributes

// Connection is what Attributes may know besides: Host, the name that the client
// asked for, with its port if it has one; Values, all values of a header in their
// order; and PeerCertificate, the client's certificate if the server has verified
// it, else nil.
type Connection = action.Connection

// httpLimit is one element of http.rate_limits: the actions of one descriptor.
type httpLimit struct {
	actions *action.List
	line    int
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
		entries, ok := d.http[i].actions.Describe(dst[n].Entries[:0], a)
		dst[n].Entries = entries
		if !ok {
			dst = dst[:n]
		}
	}
	return dst
}
