package replay

import (
	"net/netip"
	"strings"

	"stint/internal/web"
	"stint/replay/accesslog"
	"stint/rule"
)

// logLine is what a line supplies to the actions of a domain. It outlives the line,
// because lines wait for their turn.
type logLine struct {
	text   string // the parts, one behind the other
	ends   [6]uint32
	status uint16 // of the answer; 0: unknown
	addr   netip.Addr
	client uint32
}

var _ rule.Attributes = (*logLine)(nil)

// The parts of logLine.text.
const (
	partMethod = iota
	partPath
	partQuery
	partAgent
	partReferer
	partServer
)

func newLogLine(r *accesslog.Record, client uint32) logLine {
	l := logLine{addr: r.Address(), client: client, status: uint16(r.Status)}
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

func (l *logLine) part(i int) string {
	from := uint32(0)
	if i > 0 {
		from = l.ends[i-1]
	}
	return l.text[from:l.ends[i]]
}

// Method returns the method of the request.
func (l *logLine) Method() string { return l.part(partMethod) }

// Path returns the path of the request without the query.
func (l *logLine) Path() string { return l.part(partPath) }

// RemoteAddress returns the client's address, invalid for a name.
func (l *logLine) RemoteAddress() netip.Addr { return l.addr }

// Header returns a header, of those that a log line may have.
func (l *logLine) Header(name string) (string, bool) {
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

// Query returns the first value of a query parameter.
func (l *logLine) Query(name string) (string, bool) { return web.QueryValue(l.part(partQuery), name) }

// QueryValues returns all values of a query parameter.
func (l *logLine) QueryValues(name string) []string { return web.QueryValues(l.part(partQuery), name) }
