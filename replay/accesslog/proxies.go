package accesslog

import (
	"bytes"

	"stint"
)

// envoy parses Envoy's default format, which is one line of
//
//	[time] "method target protocol" status flags received sent duration upstream-time
//	"x-forwarded-for" "agent" "id" "authority" "upstream"
//
// Istio's format has more fields after the flags, one of them in quotes. The format has no field
// for the peer's address, so the client is the last address of X-Forwarded-For: the one that Envoy
// itself appended if use_remote_address is on.
func (p *Parser) envoy(line []byte) bool {
	stamp, rest, ok := bytes.Cut(line[1:], []byte("] \""))
	if !ok || !p.isoTime(stamp) {
		return false
	}
	n, ok := p.rec.setRequest(rest, true)
	if !ok {
		return false
	}
	quote := closingQuote(rest[n:])
	if quote < 0 {
		return false
	}
	rest = bytes.TrimLeft(rest[n+quote+1:], " ")
	p.rec.setStatus(rest)
	const numbers = 5 // numbers after the status: flags, received, sent, duration, upstream-time
	plain, _, _ := bytes.Cut(rest, []byte(`"`))
	if len(bytes.TrimRight(plain, " ")) > 0 && bytes.Count(plain, []byte(" ")) <= numbers {
		_, rest = quotedString(rest) // Istio's reason for a transport failure
	}
	forwarded, rest := quotedString(rest)
	last := bytes.TrimSpace(forwarded[bytes.LastIndexByte(forwarded, ',')+1:])
	if !p.rec.setAddress(last) {
		p.nameless = true
		return false
	}
	if p.Parts&Headers != 0 {
		p.rec.Agent, rest = quotedString(rest)
		_, rest = quotedString(rest)
		p.rec.Server, _ = quotedString(rest)
	}
	return true
}

// haproxy parses HAProxy's HTTP log, optionally with a syslog header:
//
//	... address:port [time] frontend backend/server TR/Tw/Tc/Tr/Ta status bytes
//	request-cookie response-cookie state connections queues {captured headers} "method target protocol"
func (p *Parser) haproxy(line []byte) bool {
	before, rest, ok := p.time(line)
	if !ok {
		return false
	}
	if !p.rec.setPeer(before[bytes.LastIndexByte(before, ' ')+1:]) {
		return false
	}
	_, rest = field(rest)
	server, rest := field(rest)
	timers, rest := field(rest)
	const slashes = 4 // slashes between the five timers; a TCP log has three timers
	if bytes.IndexByte(server, '/') < 0 || bytes.Count(timers, []byte("/")) != slashes {
		return false
	}
	p.rec.setStatus(rest)
	_, request, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return false
	}
	if _, ok = p.rec.setRequest(request, true); ok && p.Parts&Headers != 0 {
		p.rec.Server = p.rec.authority
	}
	return ok
}

// alb parses the log of an AWS Application Load Balancer:
//
//	type time balancer client:port target:port three-durations status target-status received sent
//	"method url protocol" "agent" cipher protocol group "trace" "domain" "certificate" priority creation-time ...
//
// The balancer writes the line when it sends the answer. If the line has the time when the request
// arrived, that time is used.
func (p *Parser) alb(line []byte) bool {
	_, rest := field(line)
	stamp, rest := field(rest)
	_, rest = field(rest)
	client, rest := field(rest)
	if !p.isoTime(stamp) || !p.rec.setPeer(client) {
		return false
	}
	const between = 4 // fields between: the target and three durations
	for range between {
		_, rest = field(rest)
	}
	p.rec.setStatus(rest)
	_, rest, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return false
	}
	n, ok := p.rec.setRequest(rest, true)
	if !ok {
		return false
	}
	quote := closingQuote(rest[n:])
	if quote < 0 {
		return true // truncated
	}
	agent, rest := quotedString(rest[n+quote+1:])
	if p.Parts&Headers != 0 {
		p.rec.Agent = agent
		p.rec.Server = defaultPort(p.rec.authority, line)
	}
	for range 3 { // trace, domain, certificate
		_, rest = quotedString(rest)
	}
	_, rest = field(bytes.TrimLeft(rest, " ")) // priority of the rule
	if created, _ := field(rest); len(created) > 0 {
		at := p.rec.At
		if !p.isoTime(created) {
			p.rec.At = at
		}
	}
	return true
}

// defaultPort removes the default port of the scheme from the host: the log always has a port, a
// Host header only if it is not the default.
func defaultPort(authority, line []byte) []byte {
	port := ":443"
	if kind, _ := field(line); string(kind) == "http" || string(kind) == "ws" {
		port = ":80"
	}
	if n := len(authority) - len(port); n > 0 && string(authority[n:]) == port {
		return authority[:n]
	}
	return authority
}

// isALB reports whether a line begins with a connection type of AWS's load balancer and a time
// after the year 2000.
func isALB(line []byte) bool {
	kind, rest, _ := bytes.Cut(line[:min(len(line), len("grpcs 2"))], []byte(" "))
	switch string(kind) {
	case "http", "https", "h2", "grpcs", "ws", "wss":
		return len(rest) > 0 && rest[0] == '2'
	}
	return false
}

// field returns the text before the next space and the text after it.
func field(s []byte) (value, rest []byte) {
	value, rest, _ = bytes.Cut(s, []byte(" "))
	return value, rest
}

// isoTime parses s as the time of the line.
func (p *Parser) isoTime(s []byte) bool {
	micros, ok := isoTime(s)
	if !ok {
		return false
	}
	var at stint.Instant
	at, ok = instant(micros)
	p.rec.At = at
	return ok
}

// setStatus parses the three digits at the beginning of s; anything else leaves the status unknown.
func (r *Record) setStatus(s []byte) {
	if len(s) >= 3 && isDigit(s[0]) && isDigit(s[1]) && isDigit(s[2]) {
		r.Status = int(s[0]-'0')*100 + int(s[1]-'0')*10 + int(s[2]-'0')
	}
}

// setPeer parses an address with port. HAProxy writes IPv6 without brackets, so the port is the
// text after the last colon. Its local sockets are unix:NUMBER.
func (r *Record) setPeer(s []byte) bool {
	if !isServer(s) {
		return false
	}
	host := s[:bytes.LastIndexByte(s, ':')]
	return r.setAddress(host) || string(host) == "unix" && r.setName(s[:len("unix:")])
}
