package urlpath

import (
	"unicode"
	"unicode/utf8"
)

const upperHex = "0123456789ABCDEF"

// put appends a byte as it is spelled.
func put(dst []byte, c byte) []byte {
	if kinds[c]&escaped == 0 {
		return append(dst, c)
	}
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

// spell appends a path with each byte in its one spelling.
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

// unescape appends a path in which nothing is escaped that could be decoded, however
// often it was escaped. An escaped slash stays one unless slashes is set.
func unescape(dst []byte, path string, slashes bool) []byte {
	before := len(dst)
	for i := range len(path) {
		dst = append(dst, path[i])
		for { // what was decoded may end another escape
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

// ending returns the byte that is escaped by the end of a text, and the width of its
// escape; 0 where there is none.
func ending(s []byte) (c byte, width int) {
	n := len(s)
	if n >= 3 && s[n-3] == '%' && isHex(s[n-2]) && isHex(s[n-1]) {
		return unhex(s[n-2])<<4 | unhex(s[n-1]), 3
	}
	// %u002F, as IIS has it.
	if n >= 6 && s[n-6] == '%' && s[n-5]|0x20 == 'u' && string(s[n-4:n-2]) == "00" && '0' <= s[n-2] && s[n-2] < '8' && isHex(s[n-1]) {
		return unhex(s[n-2])<<4 | unhex(s[n-1]), 6
	}
	// More bytes of UTF-8 than a character needs: none of them is valid.
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

// continues says whether a byte continues a character of UTF-8.
func continues(c byte) bool { return c&0xc0 == 0x80 }

// lower appends a spelled path with its escaped letters in lower case.
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

// letter reads the character at the beginning of a spelled path, and says how many
// bytes it takes there. What is no character is utf8.RuneError and one escape.
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

// fold returns the one letter that stands for all that differ only by case.
func fold(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return unicode.ToLower(least)
}

// isEscape says whether an escape begins at a place of a path.
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
