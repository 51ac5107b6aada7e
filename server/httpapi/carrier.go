package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/web"
)

// This file is all that carries the traffic endpoints on net/http.

// Handler returns the endpoints as a handler of net/http.
func (t *Traffic) Handler() http.Handler { return http.HandlerFunc(t.carry) }

// exchange is the memory of one request on its way through the carrier.
type exchange struct {
	body []byte
	req  Request
	resp Response
}

// maxKept is the largest buffer that waits for the next request.
const maxKept = 64 << 10

func (t *Traffic) carry(w http.ResponseWriter, r *http.Request) {
	if t.json != nil && r.URL.Path == JSONPath {
		if f := fromPage(netHeaders(r.Header)); f != nil {
			f.Write(w)
			return
		}
		t.json.ServeHTTP(w, r)
		return
	}
	if t.healthy != nil && r.URL.Path == HealthPath {
		healthy(w, r, t.healthy())
		return
	}
	if t.pages.serve(w, r) {
		return
	}
	x := t.exchanges.Get().(*exchange)
	defer func() {
		if cap(x.body) <= maxKept && cap(x.resp.Body) <= maxKept {
			t.exchanges.Put(x)
		}
	}()
	x.req = Request{Method: r.Method, Path: r.URL.Path, Header: netHeaders(r.Header)}
	if r.URL.Path == AuthPath { // a body is the client's, and means nothing here
		x.req.Query, x.req.Peer = r.URL.RawQuery, web.PeerAddr(r.RemoteAddr)
	} else {
		var err error
		x.body, err = jsonbody.Read(x.body[:0], r, t.maxBody)
		if err != nil {
			jsonbody.Unreadable(err, t.maxBody).Write(w)
			return
		}
		x.req.Body = x.body
	}
	x.resp.reset()
	x.resp.refuse(t.serve(r.Context(), &x.req, &x.resp))
	x.resp.put(w.Header())
	w.WriteHeader(x.resp.Status)
	_, _ = w.Write(x.resp.Body) // the client may be gone; nobody else can be told
}

// put sets the fields of a response in a header, as they are spelled.
func (r *Response) put(header http.Header) {
	values := make([]string, len(r.Fields)+1)
	for i, f := range r.Fields {
		if others := header[f.Name]; others != nil {
			header[f.Name] = append(others, f.Value)
			continue
		}
		values[i] = f.Value
		header[f.Name] = values[i : i+1 : i+1]
	}
	last := values[len(r.Fields):]
	last[0] = strconv.Itoa(len(r.Body))
	header["Content-Length"] = last
}

// netHeaders is the header of a net/http request as the API reads it.
type netHeaders http.Header

// Values returns all values of that name. Rule files write names in lower case; to
// spell them as net/http does takes no memory here.
func (h netHeaders) Values(name string) []string {
	if values := h[name]; len(values) > 0 {
		return values
	}
	var spelled [64]byte
	if len(name) > len(spelled) {
		return h[textproto.CanonicalMIMEHeaderKey(name)]
	}
	begins := true
	for i := range len(name) {
		c := name[i]
		switch {
		case begins && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		case !begins && 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		spelled[i], begins = c, c == '-'
	}
	return h[string(spelled[:len(name)])]
}

// Limits is how long and how large a request may be before its connection is cut.
// A zero field means its default.
type Limits struct {
	// ReadHeader is the longest from the first byte of a request, or from the opening
	// of its connection, to the end of its header. Default 5 s. Raising it lets slow
	// clients hold connections longer.
	ReadHeader time.Duration

	// Read is the same for the whole request. Default 10 s.
	Read time.Duration

	// Write is the longest from the end of the header to the end of the answer.
	// Default 15 s. It must leave room for the store's deadline.
	Write time.Duration

	// Idle is how long a connection may wait for its next request. Default 2 min.
	// Shorter than what a load balancer in front keeps, it costs reconnects.
	Idle time.Duration

	// HeaderBytes is the most bytes of a request line and header. Default 16 KiB.
	// net/http adds 4 KiB of its own.
	HeaderBytes int
}

// NewServer returns a server that cuts off clients that are slow or send too much.
// Its caller sets ErrorLog.
func NewServer(handler http.Handler, limits Limits) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: or(limits.ReadHeader, 5*time.Second),
		ReadTimeout:       or(limits.Read, 10*time.Second),
		WriteTimeout:      or(limits.Write, 15*time.Second),
		IdleTimeout:       or(limits.Idle, 2*time.Minute),
		MaxHeaderBytes:    or(limits.HeaderBytes, 16<<10),
	}
}

func or[T time.Duration | int](value, other T) T {
	if value == 0 {
		return other
	}
	return value
}

// CheckAdmin refuses an address of the admin listener that strangers could reach
// while no token guards it. addr is host:port, or unix:PATH, which nobody else reaches than
// who may write to the file; "" is a listener that is switched off.
// The error says what to do after a line break.
func CheckAdmin(addr, token string) error {
	if _, isSocket := web.Path(addr); addr == "" || token != "" || isSocket {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("admin address %q: %w", addr, err)
	}
	if web.Loopback(host) {
		return nil
	}
	return &AdminError{Addr: addr}
}

// AdminError says that the admin listener would be open to strangers.
type AdminError struct{ Addr string }

// Error says what is wrong.
func (e *AdminError) Error() string {
	return fmt.Sprintf("admin address %q can be reached from other machines and no token is set", e.Addr)
}

// Hint says what to do.
func (e *AdminError) Hint() string {
	return "set an admin token, or listen on loopback such as 127.0.0.1:8082"
}
