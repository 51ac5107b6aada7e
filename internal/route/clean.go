package route

import "strings"

const upperHex = "0123456789ABCDEF"

// Clean returns the one spelling of a path as it was sent, without its query. What
// a server would answer alike becomes equal: escapes of characters that have no
// meaning are decoded, all others are written in capitals, bytes that should have
// been escaped are, and empty and dot segments are resolved, never above the root. A
// slash at the end stays, and an escaped slash (%2F) stays one that does not
// separate. The result of Clean is clean; one that was clean is returned as it
// stands, without an allocation.
func Clean(path string) string {
	if isClean(path) {
		return path
	}
	return resolve(decode(path))
}

// isClean says whether Clean would change nothing. It may be wrong only by saying
// no.
func isClean(path string) bool {
	if path == "" || path[0] != '/' {
		return path == "*" // the target of OPTIONS for a whole server
	}
	for i := range len(path) {
		if c := path[i]; !isPlain(c) {
			return false
		} else if c == '/' && i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.') {
			return false
		}
	}
	return true
}

// isPlain says whether a byte stands for itself in a clean path.
func isPlain(c byte) bool {
	return c > ' ' && c < 0x7f && c != '%' && c != '?' && c != '#'
}

// decode brings every byte to its one spelling.
func decode(path string) string {
	var b strings.Builder
	b.Grow(len(path) + 8)
	for i := 0; i < len(path); i++ {
		c, escaped := path[i], false
		if c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]) {
			c, escaped = unhex(path[i+1])<<4|unhex(path[i+2]), true
			i += 2
		}
		if isPlain(c) && !(escaped && c == '/') {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(upperHex[c>>4])
		b.WriteByte(upperHex[c&15])
	}
	return b.String()
}

// resolve takes empty and dot segments out of a path.
func resolve(path string) string {
	var kept []string
	rest, more := path, true
	segment := ""
	for more {
		segment, rest, more = strings.Cut(rest, "/")
		switch segment {
		case "", ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, segment)
		}
	}
	clean := "/" + strings.Join(kept, "/")
	if directory := segment == "" || segment == "." || segment == ".."; directory && clean != "/" {
		clean += "/"
	}
	return clean
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}
