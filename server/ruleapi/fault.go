package ruleapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"stint/rule"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
	"stint/rule/catalog/disk"
)

// fault is a request that is refused: what the error envelope says.
type fault struct {
	status  int
	code    string
	problem string
	hint    string
	context any // an object; nil for an empty one
}

// envelope is a fault on the wire.
type envelope struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Context any    `json:"context"`
	} `json:"error"`
}

// fieldContext says which field is wrong.
type fieldContext struct {
	Field string `json:"field"`
}

// faultsContext says what is wrong with a file of rules.
type faultsContext struct {
	Faults []lineFault `json:"faults"`
}

type lineFault struct {
	Line    int    `json:"line"` // 0: of no line
	Problem string `json:"problem"`
	Hint    string `json:"hint"`
}

// hashContext says which rules are there.
type hashContext struct {
	Hash string `json:"hash"`
}

func (f *fault) write(w http.ResponseWriter) {
	var e envelope
	e.Error.Code, e.Error.Message, e.Error.Context = f.code, f.problem+"; "+f.hint, f.context
	if f.context == nil {
		e.Error.Context = struct{}{}
	}
	if f.status == http.StatusRequestTimeout || f.status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // what is left of the body is not worth reading
	}
	writeJSON(w, f.status, e)
}

func writeJSON(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone; nobody else can be told
}

func bad(field, problem, hint string) *fault {
	f := &fault{status: http.StatusBadRequest, code: "bad_request", problem: problem, hint: hint}
	if field != "" {
		f.problem, f.context = field+": "+problem, fieldContext{field}
	}
	return f
}

func notFound(problem, hint string) *fault {
	return &fault{status: http.StatusNotFound, code: "not_found", problem: problem, hint: hint}
}

// refuse answers a method that a path does not have.
func refuse(w http.ResponseWriter, r *http.Request, allowed ...string) {
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	(&fault{
		status: http.StatusMethodNotAllowed, code: "method_not_allowed",
		problem: quote(r.Method) + " is no method of this path", hint: "use " + list,
	}).write(w)
}

// faultOf returns what an error of a change means to whoever asked for it.
func faultOf(err error) *fault {
	if files, ok := errors.AsType[*rule.Errors](err); ok {
		return badFile(files)
	}
	if wrong, ok := errors.AsType[*catalog.Error](err); ok {
		return bad(wrong.Field, wrong.Problem, wrong.Hint)
	}
	if wrong, ok := errors.AsType[*rule.Error](err); ok {
		return bad("", wrong.Problem, wrong.Hint)
	}
	if unmet, ok := errors.AsType[*book.PreconditionError](err); ok {
		return &fault{
			status: http.StatusPreconditionFailed, code: "precondition_failed",
			problem: unmet.Error(), hint: "get the rule, make the change to what is there now, and send its ETag as If-Match",
		}
	}
	if stale, ok := errors.AsType[*book.StaleError](err); ok {
		return &fault{
			status: http.StatusPreconditionFailed, code: "precondition_failed", context: hashContext{stale.Hash},
			problem: stale.Error(), hint: "look at the rules that are there now, and send that hash as If-Match",
		}
	}
	if store, ok := errors.AsType[*disk.Error](err); ok {
		return &fault{status: http.StatusInsufficientStorage, code: "not_saved", problem: "not saved: " + store.Error(), hint: store.Hint}
	}
	switch {
	case errors.Is(err, book.ErrReadOnly):
		return &fault{
			status: http.StatusConflict, code: "read_only",
			problem: "the rules of this service come from files and cannot be changed here",
			hint:    "change the files, or start the service with --catalog-db FILE instead of --catalog",
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &fault{status: http.StatusRequestTimeout, code: "request_timeout", problem: "the body did not arrive in time", hint: "send it at once"}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge()
	}
	return bad("", "the body could not be read", "send as many bytes as Content-Length says, or whole chunks")
}

func tooLarge() *fault {
	return &fault{
		status: http.StatusRequestEntityTooLarge, code: "body_too_large",
		problem: "the body is too large", hint: fmt.Sprintf("send at most %d bytes of one rule, %d of an import", maxRule, maxImport),
	}
}

// badFile says what is wrong with the rules of an import.
func badFile(files *rule.Errors) *fault {
	context := faultsContext{Faults: []lineFault{}}
	for _, e := range files.List {
		context.Faults = append(context.Faults, lineFault{e.Line, e.Problem, e.Hint})
	}
	first := files.List[0]
	f := &fault{status: http.StatusBadRequest, code: "bad_request", problem: first.Problem, hint: first.Hint, context: context}
	if first.Line > 0 {
		f.problem = fmt.Sprintf("line %d: %s", first.Line, f.problem)
	}
	return f
}

// quote shows a piece of a request in a message, cut to a length that helps.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return fmt.Sprintf("%q", text)
}
