package text

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

// Quote shows a piece of input, cut to a length that helps. What is no UTF-8 is shown as
// its bytes, so that the result always is.
func Quote(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strconv.Quote(text)
}

// Cause is an error of the file system without the operation and the path, which a
// message names in its own way.
func Cause(err error) string {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err.Error()
	}
	return err.Error()
}
