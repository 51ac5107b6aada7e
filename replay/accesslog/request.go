package accesslog

import (
	"net/netip"
	"strings"

	"stint/internal/web"
)

// Request is the request of a log line, for rules. It does not share memory with the line.
type Request struct {
	text   string // all parts, one after another
	ends   [6]uint32
	addr   netip.Addr
	Status uint16 // status of the answer; 0 if unknown
	Client uint32 // number of the client, set by the caller
}

// The parts of Request.text.
const (
	partMethod = iota
	partPath
	partQuery
	partAgent
	partReferer
	partServer
)

// NewRequest copies the request of a record.
func NewRequest(r *Record, client uint32) Request {
	l := Request{addr: r.Address(), Client: client, Status: uint16(r.Status)}
	parts := [...][]byte{r.Method, r.Path, r.Query, r.Agent, r.Referer, r.Server}
	total := 0
	for i, p := range parts {
		total += len(p)
		l.ends[i] = uint32(total)
	}
	var b strings.Builder
	b.Grow(total)
	for _, p := range parts {
		b.Write(p)
	}
	l.text = b.String()
	return l
}

func (l *Request) part(i int) string {
	from := uint32(0)
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.text[from:l.ends[i]]
}

// Method returns the method of the request.
func (l *Request) Method() string { return l.part(partMethod) }

// Path returns the path of the request without the query.
func (l *Request) Path() string { return l.part(partPath) }

// RemoteAddress returns the client's address, or the invalid address for a host name.
func (l *Request) RemoteAddress() netip.Addr { return l.addr }

// Header returns a header, if log lines can have it.
func (l *Request) Header(name string) (string, bool) {
	value := ""
	switch {
	case strings.EqualFold(name, "User-Agent"):
		value = l.part(partAgent)
	case strings.EqualFold(name, "Referer"):
		value = l.part(partReferer)
	case strings.EqualFold(name, "Host"):
		value = l.part(partServer)
	}
	return value, value != ""
}

// Query returns the first value of a query parameter that is not empty, if there is one.
func (l *Request) Query(name string) (string, bool) { return web.QueryValue(l.part(partQuery), name) }

// QueryValues returns all values of a query parameter.
func (l *Request) QueryValues(name string) []string { return web.QueryValues(l.part(partQuery), name) }
