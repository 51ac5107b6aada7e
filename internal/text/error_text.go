package text

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
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
