package web

import (
	"net/netip"
	"strconv"
	"strings"
)

// cutList cuts the last hop off a list and reports whether more hops remain.
func cutList(line string) (rest, hop string, more bool) {
	i := strings.LastIndexByte(line, ',')
	return line[:max(i, 0)], line[i+1:], i >= 0
}

// cutQuoted is cutList for lists with commas in quoted strings. It reads from the right too: a
// quote that a client opens on the left and never closes must not hide the entry that a proxy
// appended.
func cutQuoted(line string) (rest, hop string, more bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch {
		case line[i] == '"' && (!quoted || !escaped(line, i)):
			quoted = !quoted
		case line[i] == ',' && !quoted:
			return line[:i], line[i+1:], true
		}
	}
	return "", line, false
}

// escaped reports whether an odd number of backslashes precedes the byte at i.
func escaped(line string, i int) bool {
	n := 0
	for i--; i >= 0 && line[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

// ParseHost parses an address as proxies write it: plain, in brackets, with a port, with spaces
// around it. It drops zones, and IPv4 in IPv6 becomes IPv4. Names, words like "unknown" and numbers
// with leading zeros are not addresses.
func ParseHost(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if inner, ok := strings.CutPrefix(s, "["); ok {
		host, port, closed := strings.Cut(inner, "]")
		if !closed || port != "" && !isPort(port) || !strings.Contains(host, ":") {
			return netip.Addr{}, false
		}
		return parseAddr(host)
	}
	if i := strings.IndexByte(s, ':'); i >= 0 && i == strings.LastIndexByte(s, ':') { // IPv4 with a port
		if !isPort(s[i:]) {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	return parseAddr(s)
}

func parseAddr(s string) (netip.Addr, bool) {
	if i := strings.IndexByte(s, '%'); i >= 0 {
		if i+1 == len(s) || strings.IndexByte(s, ':') < 0 {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap(), err == nil
}

// isPort reports whether s is a colon and a port number.
func isPort(s string) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	_, err := strconv.ParseUint(s[1:], 10, 16)
	return err == nil
}

// parseForwarded returns the address of one element of a Forwarded header, for example
// for="[2001:db8::1]:4711";proto=https. It fails unless there is exactly one "for", and for any
// syntax error.
func parseForwarded(element string) (netip.Addr, bool) {
	var node string
	found := false
	for rest := element; rest != ""; {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			return netip.Addr{}, false
		}
		var value string
		if value, rest, ok = cutValue(after); !ok {
			return netip.Addr{}, false
		}
		if strings.EqualFold(strings.Trim(name, " \t"), "for") {
			if found {
				return netip.Addr{}, false
			}
			node, found = value, true
		}
	}
	if !found {
		return netip.Addr{}, false
	}
	return ParseHost(node)
}

// cutValue cuts a token or quoted string that ends at a semicolon or at the end. It leaves escapes
// as they are, because no address has any.
func cutValue(s string) (value, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t")
	if !strings.HasPrefix(s, `"`) {
		value, rest, _ = strings.Cut(s, ";")
		return value, rest, !strings.Contains(value, `"`)
	}
	end := 1
	for end < len(s) && s[end] != '"' {
		if s[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s) {
		return "", "", false
	}
	value = s[1:end]
	rest = strings.TrimLeft(s[end+1:], " \t")
	if rest == "" {
		return value, "", true
	}
	rest, ok = strings.CutPrefix(rest, ";")
	return value, rest, ok
}
