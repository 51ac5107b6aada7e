package httpapi

import (
	"fmt"
	"strconv"
	"strings"
)

// The codes of the error envelope. They are part of the protocol.
const (
	codeBadRequest   = "bad_request"
	codeUnauthorized = "unauthorized"
	codeForbidden    = "forbidden"
	codeNotFound     = "not_found"
	codeMethod       = "method_not_allowed"
	codeTimeout      = "request_timeout"
	codeTooLarge     = "body_too_large"
	codeMediaType    = "unsupported_media_type"
	codeNoDecision   = "no_decision"
)

// fault is a request that is refused: what the error envelope says.
type fault struct {
	status  int
	code    string
	field   string // path of the field, such as descriptors[0].cost; "" for the whole
	offset  int    // byte of the body where it was seen, -1 for none
	problem string
	hint    string
}

// bad returns a fault of the body.
func bad(offset int, problem, hint string) *fault {
	return &fault{status: 400, code: codeBadRequest, offset: offset, problem: problem, hint: hint}
}

// at says in which field the fault lies; fields of fields are put before it on the
// way out.
func (f *fault) at(field string) *fault {
	switch {
	case f == nil:
		return nil
	case f.field == "" || strings.HasPrefix(f.field, "["):
		f.field = field + f.field
	default:
		f.field = field + "." + f.field
	}
	return f
}

// atIndex says in which element of an array the fault lies.
func (f *fault) atIndex(i int) *fault {
	if f == nil {
		return nil
	}
	return f.at("[" + strconv.Itoa(i) + "]")
}

// message is the whole sentence for people: where, what, what to do.
func (f *fault) message() string { return f.problemAt() + "; " + f.hint }

// problemAt says where and what, without what to do.
func (f *fault) problemAt() string {
	if f.field != "" {
		return f.field + ": " + f.problem
	}
	return f.problem
}

// appendJSON appends the error envelope.
func (f *fault) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"error":{"code":`...)
	dst = appendString(dst, f.code)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, f.message())
	dst = append(dst, `,"context":{`...)
	if f.field != "" {
		dst = append(dst, `"field":`...)
		dst = appendString(dst, f.field)
	}
	if f.offset >= 0 {
		if f.field != "" {
			dst = append(dst, ',')
		}
		dst = append(dst, `"offset":`...)
		dst = strconv.AppendInt(dst, int64(f.offset), 10)
	}
	return append(dst, "}}}\n"...)
}

// quote shows a piece of a request in a message, cut to a length that helps.
func quote(text string) string {
	const most = 40
	if len(text) > most {
		return fmt.Sprintf("%.*q...", most, text)
	}
	return strconv.Quote(text)
}
