package accesslog

import (
	"bytes"

	"stint"
)

// envoy reads Envoy's default format, which is one line of
//
//	[time] "method target protocol" status flags received sent duration upstream-time
//	"x-forwarded-for" "agent" "id" "authority" "upstream"
//
// Istio's has more fields behind the flags, one of them in quotes. The format has no
// field for the peer's address, so the client is the last address of
// X-Forwarded-For: the one that Envoy itself appended, where use_remote_address is on.
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
	const numbers = 5 // behind the status: flags, received, sent, duration, upstream-time
	plain, _, _ := bytes.Cut(rest, []byte(`"`))
	if len(bytes.TrimRight(plain, " ")) > 0 && bytes.Count(plain, []byte(" ")) <= numbers {
		_, rest = quotedString(rest) // Istio's reason of a failed transport
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

// haproxy reads HAProxy's HTTP log, with whatever syslog put in front of it:
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
	const slashes = 4 // between the five timers; a TCP log has three
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

// alb reads the log of an AWS Application Load Balancer:
//
//	type time balancer client:port target:port three-durations status target-status received sent
//	"method url protocol" "agent" cipher protocol group "trace" "domain" "certificate" priority creation-time ...
//
// The line is written when the answer is sent; where it says when the request came,
// that is its time.
func (p *Parser) alb(line []byte) bool {
	_, rest := field(line)
	stamp, rest := field(rest)
	_, rest = field(rest)
	client, rest := field(rest)
	if !p.isoTime(stamp) || !p.rec.setPeer(client) {
		return false
	}
	const between = 4 // the target and three durations
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
		return true // cut off
	}
	agent, rest := quotedString(rest[n+quote+1:])
	if p.Parts&Headers != 0 {
		p.rec.Agent = agent
		p.rec.Server = defaultPort(p.rec.authority, line)
	}
	for range 3 { // trace, domain, certificate
		_, rest = quotedString(rest)
	}
	_, rest = field(bytes.TrimLeft(rest, " ")) // the rule's priority
	if created, _ := field(rest); len(created) > 0 {
		at := p.rec.At
		if !p.isoTime(created) {
			p.rec.At = at
		}
	}
	return true
}

// defaultPort returns the host that a client asked for: the log always has the port,
// a Host header only where it is not that of the scheme.
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

// isALB says whether a line begins with a type of connection of AWS's load balancer
// and a time of this millennium.
func isALB(line []byte) bool {
	kind, rest, _ := bytes.Cut(line[:min(len(line), len("grpcs 2"))], []byte(" "))
	switch string(kind) {
	case "http", "https", "h2", "grpcs", "ws", "wss":
		return len(rest) > 0 && rest[0] == '2'
	}
	return false
}

// field returns what stands before the next space, and what stands behind it.
func field(s []byte) (value, rest []byte) {
	value, rest, _ = bytes.Cut(s, []byte(" "))
	return value, rest
}

// isoTime reads the whole of s as the time of the line.
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

// setStatus reads the three digits that s begins with; others leave it unknown.
func (r *Record) setStatus(s []byte) {
	if len(s) >= 3 && isDigit(s[0]) && isDigit(s[1]) && isDigit(s[2]) {
		r.Status = int(s[0]-'0')*100 + int(s[1]-'0')*10 + int(s[2]-'0')
	}
}

// setPeer reads an address with its port. HAProxy writes IPv6 without brackets, so
// the port is what follows the last colon; its local sockets are unix:NUMBER.
func (r *Record) setPeer(s []byte) bool {
	if !isServer(s) {
		return false
	}
	host := s[:bytes.LastIndexByte(s, ':')]
	return r.setAddress(host) || string(host) == "unix" && r.setName(s[:len("unix:")])
}
