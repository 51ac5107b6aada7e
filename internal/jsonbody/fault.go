package jsonbody

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The codes. They are part of the protocol.
const (
	BadRequest   = "bad_request"
	Unauthorized = "unauthorized"
	Forbidden    = "forbidden"
	NotFound     = "not_found"
	Method       = "method_not_allowed"
	Timeout      = "request_timeout"
	ReadOnly     = "read_only"
	Precondition = "precondition_failed"
	TooLarge     = "body_too_large"
	MediaType    = "unsupported_media_type"
	NoDecision   = "no_decision"
	NotSaved     = "not_saved"
)

// Fault is a request that is refused.
type Fault struct {
	Status  int    // of HTTP
	Code    string // one of the constants
	Field   string // path of the field that is wrong, such as descriptors[0].cost; "" for the whole
	Seen    int    // at which byte of the body, from 1; 0 for none
	Problem string // what is wrong
	Hint    string // what to do; "" where the problem says it

	// Context is what programs are told, an object; nil: the field and the byte.
	Context any
}

// Bad returns a fault of the request.
func Bad(field, problem, hint string) *Fault {
	return &Fault{Status: http.StatusBadRequest, Code: BadRequest, Field: field, Problem: problem, Hint: hint}
}

// BadAt returns a fault of the body, seen at a byte of it.
func BadAt(offset int, problem, hint string) *Fault {
	f := Bad("", problem, hint)
	f.Seen = offset + 1
	return f
}

// In says in which field the fault lies; fields of fields are put before it on the way
// out. The fault of nothing stays nil.
func (f *Fault) In(field string) *Fault {
	switch {
	case f == nil:
		return nil
	case f.Field == "" || strings.HasPrefix(f.Field, "["):
		f.Field = field + f.Field
	default:
		f.Field = field + "." + f.Field
	}
	return f
}

// InElement says in which element of an array the fault lies.
func (f *Fault) InElement(i int) *Fault {
	if f == nil {
		return nil
	}
	return f.In("[" + strconv.Itoa(i) + "]")
}

// Message is the whole sentence for people: where, what, what to do.
func (f *Fault) Message() string {
	if f.Hint == "" {
		return f.Where()
	}
	return f.Where() + "; " + f.Hint
}

// Where says where and what, without what to do.
func (f *Fault) Where() string {
	if f.Field != "" {
		return f.Field + ": " + f.Problem
	}
	return f.Problem
}

// Append appends the envelope.
func (f *Fault) Append(dst []byte) []byte {
	dst = append(dst, `{"error":{"code":`...)
	dst = AppendString(dst, f.Code)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, f.Message())
	dst = append(dst, `,"context":`...)
	if f.Context != nil {
		context, _ := json.Marshal(f.Context) // of texts and numbers: it cannot fail
		return append(append(dst, context...), "}}\n"...)
	}
	dst = append(dst, '{')
	if f.Field != "" {
		dst = append(dst, `"field":`...)
		dst = AppendString(dst, f.Field)
	}
	if f.Seen > 0 {
		if f.Field != "" {
			dst = append(dst, ',')
		}
		dst = append(dst, `"offset":`...)
		dst = strconv.AppendInt(dst, int64(f.Seen-1), 10)
	}
	return append(dst, "}}}\n"...)
}

// Write answers with the fault. Where the body of the request did not come, or is too
// large, the connection ends: what is left is not worth reading.
func (f *Fault) Write(w http.ResponseWriter) {
	if f.Status == http.StatusRequestTimeout || f.Status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close")
	}
	body := f.Append(nil)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.Status)
	_, _ = w.Write(body) // the client may be gone; nobody else can be told
}

// WriteJSON answers with an object that encoding/json can write.
func WriteJSON(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone; nobody else can be told
}

// AppendString appends a JSON string. What is no UTF-8 in it becomes U+FFFD.
func AppendString(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	dst = append(dst, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
