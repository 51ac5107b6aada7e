package jsonbody

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"stint/internal/text"
)

// errTooLarge is the error of Read for a body above its limit.
var errTooLarge = errors.New("body too large")

// Read appends the body of r to buf. It reads at most one byte more than most, and allocates as
// bytes arrive: a client that announces a large body and does not send it costs no memory.
func Read(buf []byte, r *http.Request, most int) ([]byte, error) {
	for r.ContentLength <= int64(most) && len(buf) <= most {
		if len(buf) == cap(buf) {
			buf = grown(buf, r.ContentLength)
		}
		n, err := r.Body.Read(buf[len(buf):min(cap(buf), most+1)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
	return buf, errTooLarge
}

// grown returns a copy of a full buffer with twice the size, or with the announced size if that is
// less. One more byte is for the end of the body.
func grown(buf []byte, announced int64) []byte {
	size := max(512, 2*len(buf))
	if n := int(announced) + 1; n > len(buf) && n < size {
		size = n
	}
	larger := make([]byte, len(buf), size)
	copy(larger, buf)
	return larger
}

// ReadFault returns the fault for an error of Read.
func ReadFault(err error, most int) *Fault {
	switch {
	case errors.Is(err, errTooLarge):
		return RefuseTooLarge(most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Fault{
			Status: http.StatusRequestTimeout, Code: Timeout,
			Problem: "the body did not arrive in time", Hint: "send it at once",
		}
	}
	return Bad("", "the body could not be read", "send as many bytes as Content-Length says, or whole chunks")
}

// RefuseTooLarge returns the fault for a body of more than most bytes.
func RefuseTooLarge(most int) *Fault {
	return &Fault{
		Status: http.StatusRequestEntityTooLarge, Code: TooLarge,
		Problem: fmt.Sprintf("the body is larger than %d bytes", most), Hint: "send several requests",
	}
}

// CheckType returns a fault for a content type other than JSON. It accepts a missing type, and the
// one that curl -d sends by default.
func CheckType(value string) *Fault {
	kind, _, _ := strings.Cut(value, ";")
	kind = strings.Trim(kind, " \t")
	for _, known := range []string{"", "application/json", "application/x-www-form-urlencoded"} {
		if strings.EqualFold(kind, known) {
			return nil
		}
	}
	return &Fault{
		Status: http.StatusUnsupportedMediaType, Code: MediaType,
		Problem: "the content type is " + text.Quote(value), Hint: "send JSON as application/json",
	}
}
