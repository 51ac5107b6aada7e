package text

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quote returns a quoted piece of input for an error message, cut to a useful length. It escapes
// bytes that are no UTF-8, so the result is valid UTF-8.
func Quote(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strconv.Quote(text)
}

// Cause returns the text of a file system error without the operation and the path, because callers
// add these themselves.
func Cause(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err.Error()
	}
	return err.Error()
}

// Shorten returns a text for messages: as it is if it has at most 60 bytes and needs no quotes, else as Quote
// does.
func Shorten(text string) string {
	if quoted := Quote(text); len(text) > 60 || quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// Printable reports whether a text is UTF-8 without control characters.
func Printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// withoutBreaks removes what a text of several lines may have besides printable characters.
var withoutBreaks = strings.NewReplacer("\n", "", "\r", "", "\t", "")

// PrintableLines reports whether a text of several lines is UTF-8 without other control characters.
func PrintableLines(text string) bool { return Printable(withoutBreaks.Replace(text)) }
