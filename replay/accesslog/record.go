package accesslog

import (
	"bytes"
	"net/netip"
	"strings"

	"stint"
)

// Record is a parsed line. Its slices refer to the memory of the line or the parser and are valid
// until the next line.
type Record struct {
	At     stint.Instant
	Method []byte
	Path   []byte // as sent, without the query
	Query  []byte // without the "?"
	Status int    // status of the answer; 0 if unknown
	Format Format // format of the line

	// These are parsed only if requested, and nil if the line lacks them. Server is the host that
	// the client asked for.
	User, Agent, Referer, Server []byte

	authority []byte // authority of a target that is an absolute URI

	host   []byte     // the client's address as written in the log, or its host name
	addr   netip.Addr // the client's address; invalid for a host name, and if plain4 is set
	plain4 bool       // host is the canonical text of an IPv4 address
}

// setRequest parses the request line and returns its length up to the end of its target. If quoted,
// it ends at the next quote at the latest.
func (r *Record) setRequest(s []byte, quoted bool) (int, bool) {
	n := 0
	for n < len(s) && isToken(s[n]) {
		n++
	}
	if n == 0 || n == len(s) || s[n] != ' ' || !isLetter(s[0]) {
		return 0, false
	}
	method := s[:n]
	for n < len(s) && s[n] == ' ' {
		n++
	}
	target := s[n:]
	end := bytes.IndexByte(target, ' ')
	if end < 0 {
		end = len(target)
	}
	if quoted {
		if quote := closingQuote(target[:end]); quote >= 0 {
			end = quote
		}
	}
	r.Method = method
	return n + end, r.setTarget(target[:end])
}

// root is the path of a URI without a path.
var root = []byte("/")

// setTarget parses a request target into path and query. It accepts all forms of RFC 9112: a path,
// an absolute URI, "*" for OPTIONS, host and port for CONNECT.
func (r *Record) setTarget(target []byte) bool {
	target, query, _ := bytes.Cut(target, []byte("?"))
	switch {
	case len(target) == 0:
		return false
	case target[0] == '/', len(target) == 1 && target[0] == '*', string(r.Method) == "CONNECT":
	default:
		scheme, rest, ok := bytes.Cut(target, []byte("://"))
		if !ok || len(scheme) == 0 || !isLetter(scheme[0]) {
			return false
		}
		r.authority, target = rest, root
		if i := bytes.IndexByte(rest, '/'); i >= 0 {
			r.authority, target = rest[:i], rest[i:]
		}
	}
	r.Path, r.Query = target, query
	return true
}

// setHost parses an address, a host name, or "unix:", which nginx writes for a local socket.
func (r *Record) setHost(s []byte) bool {
	return r.setAddress(s) || r.setName(s)
}

// setAddress parses an address, optionally in brackets or with a port.
func (r *Record) setAddress(s []byte) bool {
	host := s
	if i := bytes.IndexByte(s, ':'); i > 0 && len(s)-i <= len(":65535") && isServer(s) {
		host = s[:i]
	}
	if isPlain4(host) {
		r.host, r.addr, r.plain4 = host, netip.Addr{}, true
		return true
	}
	if len(s) < 2 || len(s) > 64 || s[0] != '[' && bytes.IndexByte(s, ':') < 0 {
		return false
	}
	addr, err := parseAddress(string(s))
	if err != nil {
		return false
	}
	r.host, r.addr, r.plain4 = s, addr.WithZone("").Unmap(), false
	return true
}

// parseAddress parses an IPv6 address, or any address in brackets or with a port.
func parseAddress(s string) (netip.Addr, error) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			return netip.ParseAddr(inner)
		}
	} else if strings.Count(s, ":") > 1 {
		return netip.ParseAddr(s)
	}
	withPort, err := netip.ParseAddrPort(s)
	return withPort.Addr(), err
}

// setName parses a host name. A name whose last label is a number is refused as a damaged address.
func (r *Record) setName(s []byte) bool {
	if !isName(s) && string(s) != "unix:" {
		return false
	}
	r.host, r.addr, r.plain4 = s, netip.Addr{}, false
	return true
}

func isName(s []byte) bool {
	if len(s) > 253 {
		return false
	}
	letter := false // whether the last label has a letter
	for _, c := range bytes.TrimSuffix(s, []byte(".")) {
		switch {
		case c == '.':
			letter = false
		case isLetter(c):
			letter = true
		case !isDigit(c) && c != '-' && c != '_':
			return false
		}
	}
	return letter
}

// Address returns the client's address, or the invalid address if the line has a host name.
func (r *Record) Address() netip.Addr {
	if !r.plain4 {
		return r.addr
	}
	var a [4]byte
	i := 0
	for _, c := range r.host {
		if c == '.' {
			i++
			continue
		}
		a[i] = a[i]*10 + c - '0'
	}
	return netip.AddrFrom4(a)
}

// AppendHost appends the client's address in its canonical form, or its name.
func (r *Record) AppendHost(b []byte) []byte {
	if r.addr.IsValid() {
		return r.addr.AppendTo(b)
	}
	return append(b, r.host...)
}

// isPlain4 reports whether s is an IPv4 address in canonical form, which most lines have.
func isPlain4(s []byte) bool {
	if len(s) < 7 || len(s) > 15 {
		return false
	}
	dots, digits, value := 0, 0, 0
	for _, c := range s {
		switch {
		case isDigit(c):
			if digits > 0 && value == 0 {
				return false
			}
			value = value*10 + int(c-'0')
			if digits++; value > 255 {
				return false
			}
		case c == '.' && digits > 0:
			dots++
			digits, value = 0, 0
		default:
			return false
		}
	}
	return dots == 3 && digits > 0
}

// isServer reports whether s is a host with a port.
func isServer(s []byte) bool {
	i := bytes.LastIndexByte(s, ':')
	if i <= 0 || i+1 == len(s) {
		return false
	}
	for _, c := range s[i+1:] {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool  { return c-'0' <= 9 }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// tokens are the bytes that RFC 9110 allows in a method.
var tokens = func() (t [256]bool) {
	for c := range 256 {
		b := byte(c)
		t[c] = isDigit(b) || isLetter(b) || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) >= 0
	}
	return t
}()

func isToken(c byte) bool { return tokens[c] }
