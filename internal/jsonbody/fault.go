package jsonbody

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error codes. They are part of the protocol.
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
	Conflict     = "conflict"
	Expired      = "expired"
	KeyReused    = "idempotency_key_reused"
	Unavailable  = "unavailable"
	RateLimited  = "rate_limited"
)

// Fault is the reason why a request is refused.
type Fault struct {
	Status  int    // status of HTTP
	Code    string // one of the codes above
	Field   string // path of the wrong field, for example descriptors[0].cost; "" for the whole body
	Seen    int    // byte of the body with the fault, counted from 1; 0 for none
	Problem string // what is wrong
	Hint    string // what to do; "" if the problem is enough

	// Context is an object for programs; nil: the field and the byte.
	Context any
}

// Bad returns a fault of the request.
func Bad(field, problem, hint string) *Fault {
	return &Fault{Status: http.StatusBadRequest, Code: BadRequest, Field: field, Problem: problem, Hint: hint}
}

// BadAt returns a fault at a byte of the body.
func BadAt(offset int, problem, hint string) *Fault {
	f := Bad("", problem, hint)
	f.Seen = offset + 1
	return f
}

// In adds the field of the fault. Callers add outer fields, which come before it. It keeps a nil
// fault nil.
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

// InElement adds the index of the array element of the fault.
func (f *Fault) InElement(i int) *Fault {
	if f == nil {
		return nil
	}
	return f.In("[" + strconv.Itoa(i) + "]")
}

// Message returns the text for people: the field, the problem and the hint.
func (f *Fault) Message() string {
	if f.Hint == "" {
		return f.Where()
	}
	return f.Where() + "; " + f.Hint
}

// Where returns the field and the problem, without the hint.
func (f *Fault) Where() string {
	if f.Field != "" {
		return f.Field + ": " + f.Problem
	}
	return f.Problem
}

// Append appends the JSON envelope.
func (f *Fault) Append(dst []byte) []byte {
	dst = append(dst, `{"error":{"code":`...)
	dst = AppendString(dst, f.Code)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, f.Message())
	dst = append(dst, `,"context":`...)
	if f.Context != nil {
		context, _ := json.Marshal(f.Context) // it cannot fail for texts and numbers
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

// Write writes the fault as the response. If the request body did not arrive or is too large, the
// connection ends, so that the server does not read the rest.
func (f *Fault) Write(w http.ResponseWriter) {
	if f.Status == http.StatusRequestTimeout || f.Status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close")
	}
	body := f.Append(nil)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.Status)
	_, _ = w.Write(body) // the client may be gone; there is nobody to report it to
}

// WriteJSON writes an object as JSON.
func WriteJSON(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone; there is nobody to report it to
}

// AppendString appends a JSON string. Bytes that are no UTF-8 become U+FFFD.
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
