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

// Only this file uses net/http to serve the traffic endpoints.

// Handler returns the endpoints as a handler of net/http.
func (t *Traffic) Handler() http.Handler { return http.HandlerFunc(t.carry) }

// exchange is the memory for one HTTP request.
type exchange struct {
	body []byte
	req  Request
	resp Response
}

// maxKept is the capacity of the largest buffer that is kept for the next request, in bytes.
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
	if servePage(t.pages, w, r) {
		return
	}
	x := t.exchanges.Get().(*exchange)
	defer func() {
		if cap(x.body) <= maxKept && cap(x.resp.Body) <= maxKept {
			t.exchanges.Put(x)
		}
	}()
	x.req = Request{Method: r.Method, Path: r.URL.Path, Header: netHeaders(r.Header)}
	if r.URL.Path == AuthPath { // ignore the body, which belongs to the client's request
		x.req.Query, x.req.Peer = r.URL.RawQuery, web.PeerAddr(r.RemoteAddr)
	} else {
		var err error
		x.body, err = jsonbody.Read(x.body[:0], r, t.maxBody)
		if err != nil {
			jsonbody.ReadFault(err, t.maxBody).Write(w)
			return
		}
		x.req.Body = x.body
	}
	x.resp.reset()
	x.resp.refuse(t.serve(r.Context(), &x.req, &x.resp))
	x.resp.put(w.Header())
	w.WriteHeader(x.resp.Status)
	_, _ = w.Write(x.resp.Body) // an error means that the client has disconnected
}

// put copies the fields of a response to a header, with their spelling.
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

// netHeaders is the header of a net/http request.
type netHeaders http.Header

// Values returns all values of that name. Rule files have names in lower case; converting them to
// net/http's spelling does not allocate here.
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

// Limits are the timeouts and the maximum header size of a connection. A zero field selects its
// default.
type Limits struct {
	// ReadHeader is the timeout from the first byte of a request, or from the opening of its
	// connection, to the end of its header. Default 5 s. A longer timeout lets slow clients occupy
	// connections longer.
	ReadHeader time.Duration

	// Read is the timeout for the whole request. Default 10 s.
	Read time.Duration

	// Write is the timeout from the end of the header to the end of the answer. Default 15 s. It
	// must be longer than the timeout of the store.
	Write time.Duration

	// Idle is the timeout for the next request on a connection. Default 2 min. If it is shorter
	// than that of a load balancer in front, clients reconnect more often.
	Idle time.Duration

	// HeaderBytes is the maximum size of request line and header in bytes. Default 16 KiB; net/http
	// adds 4 KiB.
	HeaderBytes int
}

// NewServer returns a server that disconnects clients that are slow or send too much. The caller
// sets ErrorLog.
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

// CheckAdmin returns an [*AdminError] if other machines could reach the admin listener at addr and
// no token is configured. addr is host:port, or unix:PATH, whose file permissions restrict access;
// "" means that the listener is disabled.
func CheckAdmin(addr, token string) error {
	if token != "" || Local(addr) {
		return nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("admin address %q: %w", addr, err)
	}
	return &AdminError{Addr: addr}
}

// Local reports whether only this machine can reach an address of a listener: one on loopback, or
// unix:PATH. "", no listener, is local too.
func Local(addr string) bool {
	if _, isSocket := web.Path(addr); addr == "" || isSocket {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	return err == nil && web.Loopback(host)
}

// AdminError means that other machines could use the admin listener without a token.
type AdminError struct{ Addr string }

// Error returns the problem without the hint.
func (e *AdminError) Error() string {
	return fmt.Sprintf("admin address %q can be reached from other machines and no token is set", e.Addr)
}

// Hint returns how to correct it.
func (e *AdminError) Hint() string {
	return "set an admin token, or listen on loopback such as 127.0.0.1:8082"
}
