package replay

import (
	"bytes"
	"net/netip"

	"stint"
	"stint/internal/clientip"
)

// record is what was read of a line. Its slices point into the line or the parser,
// and are valid until the next line.
type record struct {
	at     stint.Instant
	host   []byte     // the address as the log has it, or a host name
	addr   netip.Addr // invalid for a host name, and while host is a plain IPv4 address
	plain4 bool       // host is the canonical text of an IPv4 address
	method []byte
	path   []byte // without the query
	query  []byte // without the "?"
	status int    // 0: unknown

	// Only read if asked for; empty where the line has none.
	user, agent, referer, server []byte
}

// parts are what is read beside address, time, method and path.
type parts uint8

const (
	withUser parts = 1 << iota
	withHeaders
)

// parser reads lines. It remembers the last time stamp, because most lines share
// all but the seconds with the one before.
type parser struct {
	parts  parts
	rec    record
	stamp  stampCache
	object jsonLine
}

// parse reads a line, and says whether address, time, method and path were there.
// The record is valid until the next call.
func (p *parser) parse(line []byte) (*record, bool) {
	p.rec = record{}
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 {
		return nil, false
	}
	ok := false
	if line[0] == '{' {
		ok = p.object.parse(line, p)
	} else {
		ok = p.text(line)
	}
	return &p.rec, ok
}

// text reads the common or combined format:
//
//	host ident user [time] "method target protocol" status bytes "referer" "agent"
//
// with the virtual host before it, if the server was told to write it.
func (p *parser) text(line []byte) bool {
	end := bytes.IndexByte(line, ' ')
	if end < 0 {
		return false
	}
	first, rest := line[:end], line[end+1:]
	identity, rest, ok := p.time(rest)
	if !ok {
		return false
	}
	second, after, _ := bytes.Cut(identity, []byte(" "))
	switch {
	case isServer(first) && p.rec.setAddress(second):
		p.rec.server, identity = first, after
	case !p.rec.setHost(first):
		return false
	}
	if p.parts&withUser != 0 {
		_, user, _ := bytes.Cut(identity, []byte(" ")) // ident, then user
		p.rec.user = present(bytes.Trim(user, ` "`))
	}
	quoted := len(rest) > 0 && rest[0] == '"'
	if quoted {
		rest = rest[1:]
	}
	n, ok := p.rec.setRequest(rest, quoted)
	if !ok {
		return false
	}
	p.answer(rest[n:])
	return true
}

// time finds the time stamp in brackets and returns what stands before and after
// it. A user name may hold a bracket, so each one is tried.
func (p *parser) time(s []byte) (before, after []byte, ok bool) {
	for from := 0; ; {
		i := bytes.IndexByte(s[from:], '[')
		if i < 0 {
			return nil, nil, false
		}
		from += i + 1
		at, n, ok := p.stamp.parse(s[from:])
		if !ok {
			continue
		}
		p.rec.at = at
		after = s[from+n:]
		if len(after) > 0 && after[0] == ']' {
			after = after[1:]
		}
		return bytes.TrimRight(s[:from-1], " "), bytes.TrimLeft(after, " "), true
	}
}

// answer reads what follows the target: the rest of the request, the status, the
// length, and the headers of the combined format. All of it may be missing.
func (p *parser) answer(s []byte) {
	i := closingQuote(s)
	if i < 0 {
		return
	}
	s = bytes.TrimLeft(s[i+1:], " ")
	if len(s) >= 3 && isDigit(s[0]) && isDigit(s[1]) && isDigit(s[2]) {
		p.rec.status = int(s[0]-'0')*100 + int(s[1]-'0')*10 + int(s[2]-'0')
	}
	if p.parts&withHeaders == 0 {
		return
	}
	p.rec.referer, s = quotedString(s)
	p.rec.agent, _ = quotedString(s)
}

// quotedString returns the next string in quotes, nil for "-", and what follows. A
// missing closing quote ends the string with the line.
func quotedString(s []byte) (value, rest []byte) {
	i := bytes.IndexByte(s, '"')
	if i < 0 {
		return nil, nil
	}
	s = s[i+1:]
	if i = closingQuote(s); i < 0 {
		return present(s), nil
	}
	return present(s[:i]), s[i+1:]
}

// closingQuote returns the place of the first quote without a backslash before it,
// -1 for none.
func closingQuote(s []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(s[from:], '"')
		if i < 0 {
			return -1
		}
		i += from
		slashes := 0
		for j := i - 1; j >= 0 && s[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
		from = i + 1
	}
}

// present returns nil for the "-" that stands for a missing value.
func present(s []byte) []byte {
	if len(s) == 1 && s[0] == '-' {
		return nil
	}
	return s
}

// setRequest reads the request line and returns how long it is up to the end of its
// target. A quoted one ends at a quote at the latest.
func (r *record) setRequest(s []byte, quoted bool) (int, bool) {
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
	r.method = method
	return n + end, r.setTarget(target[:end])
}

// setTarget reads a request target into path and query. All forms of RFC 9112 are
// known: a path, an absolute URI, "*" for OPTIONS, host and port for CONNECT.
func (r *record) setTarget(target []byte) bool {
	target, query, _ := bytes.Cut(target, []byte("?"))
	switch {
	case len(target) == 0:
		return false
	case target[0] == '/', len(target) == 1 && target[0] == '*', string(r.method) == "CONNECT":
	default:
		scheme, rest, ok := bytes.Cut(target, []byte("://"))
		if !ok || len(scheme) == 0 || !isLetter(scheme[0]) {
			return false
		}
		if i := bytes.IndexByte(rest, '/'); i >= 0 {
			target = rest[i:]
		} else {
			target = []byte("/")
		}
	}
	r.path, r.query = target, query
	return true
}

// setHost reads an address, a host name, or the "unix:" that nginx writes for a
// local socket.
func (r *record) setHost(s []byte) bool {
	return r.setAddress(s) || r.setName(s)
}

// setAddress reads an address, also in brackets or with a port.
func (r *record) setAddress(s []byte) bool {
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
	addr, ok := clientip.ParseHost(string(s))
	if ok {
		r.host, r.addr, r.plain4 = s, addr, false
	}
	return ok
}

// setName reads a host name. What ends in a number is a damaged address.
func (r *record) setName(s []byte) bool {
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
	letter := false // in the last label
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

// address returns the client's address, invalid where the line has a name.
func (r *record) address() netip.Addr {
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

// appendClient appends who the client is: its IPv4 address, the /64 of its IPv6
// address, or its name.
func (r *record) appendClient(b []byte) []byte {
	if !r.addr.IsValid() {
		return append(b, r.host...)
	}
	b = clientip.Group(r.addr, 0).AppendTo(b)
	if r.addr.Is6() {
		b = append(b, "/64"...)
	}
	return b
}

// isPlain4 says whether s is an IPv4 address as it is written canonically, which is
// what nearly all lines have.
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

// isServer says whether s is a host with a port.
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

// tokens are the bytes of a method by RFC 9110.
var tokens = func() (t [256]bool) {
	for c := range 256 {
		b := byte(c)
		t[c] = isDigit(b) || isLetter(b) || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) >= 0
	}
	return t
}()

func isToken(c byte) bool { return tokens[c] }
