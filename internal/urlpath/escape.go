package urlpath

import (
	"unicode"
	"unicode/utf8"
)

const upperHex = "0123456789ABCDEF"

// put appends a byte, escaped if necessary.
func put(dst []byte, c byte) []byte {
	if kinds[c]&escaped == 0 {
		return append(dst, c)
	}
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

// spell appends a path with each byte in its clean spelling.
func spell(dst []byte, path string, o Options) []byte {
	for i := 0; i < len(path); i++ {
		c, wasEscaped := path[i], false
		if isEscape(path, i) {
			c, wasEscaped = unhex(path[i+1])<<4|unhex(path[i+2]), true
			i += 2
		}
		switch {
		case o.Endings && (c == 0 || c == '#' && !wasEscaped):
			return dst
		case c == '/' && wasEscaped && !o.EscapedSlash:
			dst = append(dst, "%2F"...)
			continue
		case c == '\\' && o.Backslash:
			c = '/'
		case o.Case && 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		dst = put(dst, c)
	}
	return dst
}

// unescape appends a path and decodes all escapes, however often the path was escaped. An escaped
// slash stays escaped unless slashes is set.
func unescape(dst []byte, path string, slashes bool) []byte {
	before := len(dst)
	for i := range len(path) {
		dst = append(dst, path[i])
		for { // a decoded byte may complete another escape
			n := len(dst)
			c, width := ending(dst[before:])
			if width == 0 || c == '/' && !slashes {
				break
			}
			dst = append(dst[:n-width], c)
		}
	}
	return dst
}

// ending returns the byte of the escape at the end of s, and the length of the escape; 0 if there
// is none.
func ending(s []byte) (c byte, width int) {
	n := len(s)
	if n >= 3 && s[n-3] == '%' && isHex(s[n-2]) && isHex(s[n-1]) {
		return unhex(s[n-2])<<4 | unhex(s[n-1]), 3
	}
	// %u002F, the form of IIS.
	if n >= 6 && s[n-6] == '%' && s[n-5]|0x20 == 'u' && string(s[n-4:n-2]) == "00" && '0' <= s[n-2] && s[n-2] < '8' && isHex(s[n-1]) {
		return unhex(s[n-2])<<4 | unhex(s[n-1]), 6
	}
	// Overlong UTF-8: more bytes than the character needs, which is never valid.
	switch {
	case n < 2 || !continues(s[n-1]):
	case s[n-2] == 0xc0 || s[n-2] == 0xc1:
		return s[n-2]<<6 | s[n-1]&0x3f, 2
	case n >= 3 && s[n-3] == 0xe0 && (s[n-2] == 0x80 || s[n-2] == 0x81):
		return s[n-2]<<6 | s[n-1]&0x3f, 3
	case n >= 4 && s[n-4] == 0xf0 && s[n-3] == 0x80 && (s[n-2] == 0x80 || s[n-2] == 0x81):
		return s[n-2]<<6 | s[n-1]&0x3f, 4
	}
	return 0, 0
}

// continues reports whether a byte continues a character of UTF-8.
func continues(c byte) bool { return c&0xc0 == 0x80 }

// lower appends a clean path with its escaped letters in lower case.
func lower(dst, path []byte) []byte {
	for i := 0; i < len(path); {
		if path[i] != '%' {
			dst = append(dst, path[i])
			i++
			continue
		}
		r, n := letter(path[i:])
		folded := fold(r)
		if r == utf8.RuneError || folded == r {
			dst = append(dst, path[i:i+n]...)
		} else {
			var text [utf8.UTFMax]byte
			for _, c := range text[:utf8.EncodeRune(text[:], folded)] {
				dst = put(dst, c)
			}
		}
		i += n
	}
	return dst
}

// letter decodes the first character of a clean path, and returns how many bytes it takes there.
// For an invalid character it returns utf8.RuneError and the length of one escape.
func letter(path []byte) (r rune, n int) {
	var text [utf8.UTFMax]byte
	k := 0
	for i := 0; k < len(text) && i+2 < len(path) && path[i] == '%'; i += 3 {
		text[k] = unhex(path[i+1])<<4 | unhex(path[i+2])
		k++
	}
	r, size := utf8.DecodeRune(text[:k])
	return r, 3 * size
}

// fold returns one letter for all letters that differ only by case.
func fold(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}

// isEscape reports whether an escape begins at index i.
func isEscape(path string, i int) bool {
	return path[i] == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2])
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
