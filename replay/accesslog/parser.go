package accesslog

import "bytes"

// Parts are optional parts of a line.
type Parts uint8

// The optional parts; join several with |.
const (
	User    Parts = 1 << iota // the authenticated user
	Headers                   // User-Agent, Referer, Host
)

// Parser parses lines. It caches the last time stamp, because most lines share it except for the
// seconds. The zero Parser is ready for use. It must not be used by several goroutines at once.
type Parser struct {
	// Parts are the optional parts to parse. Each costs a little time.
	Parts Parts

	rec      Record
	stamp    stampCache
	object   jsonLine
	nameless bool // the last line lacks only its client's address
}

// Parse parses a line. It returns false if address, time, method or path is missing. The record is
// valid until the next call.
func (p *Parser) Parse(line []byte) (*Record, bool) {
	line = bytes.TrimLeft(line, " \t")
	p.nameless = false
	switch {
	case len(line) == 0:
		return nil, false
	case line[0] == '{':
		return p.try(JSON, p.object.parse(line, p))
	case isALB(line):
		p.rec = Record{}
		return p.try(ALB, p.alb(line))
	case line[0] == '[':
		p.rec = Record{}
		if p.envoy(line) || p.nameless {
			return p.try(Envoy, !p.nameless)
		}
	}
	p.rec = Record{}
	if p.text(line) {
		return p.try(Common, true)
	}
	p.rec = Record{}
	return p.try(HAProxy, p.haproxy(line))
}

// try returns the record of a line after one format was tried, and whether it could be parsed.
func (p *Parser) try(f Format, ok bool) (*Record, bool) {
	p.rec.Format = f
	if f == JSON && p.object.cloudflare {
		p.rec.Format = Cloudflare
	}
	return &p.rec, ok
}

// Nameless reports whether the last line is in Envoy's format and lacks only its client's address,
// because the request had no X-Forwarded-For.
func (p *Parser) Nameless() bool { return p.nameless }

// text parses the common or combined format:
//
//	host ident user [time] "method target protocol" status bytes "referer" "agent"
//
// optionally with the virtual host as the first field.
func (p *Parser) text(line []byte) bool {
	first, rest, _ := bytes.Cut(line, []byte(" "))
	identity, rest, ok := p.time(rest)
	if !ok {
		return false
	}
	second, after, _ := bytes.Cut(identity, []byte(" "))
	switch {
	case isServer(first) && p.rec.setAddress(second):
		p.rec.Server, identity = first, after
	case !p.rec.setHost(first):
		return false
	}
	if p.Parts&User != 0 {
		_, user, _ := bytes.Cut(identity, []byte(" ")) // ident, then user
		p.rec.User = present(bytes.Trim(user, ` "`))
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

// time parses the time stamp in brackets and returns the text before and after it. It tries each
// bracket, because a user name may contain one.
func (p *Parser) time(s []byte) (before, after []byte, ok bool) {
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
		p.rec.At = at
		after = s[from+n:]
		if len(after) > 0 && after[0] == ']' {
			after = after[1:]
		}
		return bytes.TrimRight(s[:from-1], " "), bytes.TrimLeft(after, " "), true
	}
}

// answer parses the text after the target: the rest of the request, the status, the length, and the
// headers of the combined format. All of it may be missing.
func (p *Parser) answer(s []byte) {
	i := closingQuote(s)
	if i < 0 {
		return
	}
	s = bytes.TrimLeft(s[i+1:], " ")
	p.rec.setStatus(s)
	if p.Parts&Headers == 0 {
		return
	}
	p.rec.Referer, s = quotedString(s)
	p.rec.Agent, _ = quotedString(s)
}

// quotedString returns the next string in quotes (nil for "-") and the text after it. If the
// closing quote is missing, the string ends with the line.
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

// closingQuote returns the index of the first quote without a backslash before it; -1 for none.
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

// present returns nil for "-", which means a missing value.
func present(s []byte) []byte {
	if len(s) == 1 && s[0] == '-' {
		return nil
	}
	return s
}
