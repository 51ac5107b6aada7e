package ruleapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"stint/internal/envelope"
	"stint/internal/wording"
	"stint/rule"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
	"stint/rule/catalog/disk"
)

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

func notFound(problem, hint string) *envelope.Fault {
	return &envelope.Fault{Status: http.StatusNotFound, Code: envelope.NotFound, Problem: problem, Hint: hint}
}

// refuse answers a method that a path does not have.
func refuse(w http.ResponseWriter, r *http.Request, allowed ...string) {
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	(&envelope.Fault{
		Status: http.StatusMethodNotAllowed, Code: envelope.Method,
		Problem: wording.Quote(r.Method) + " is no method of this path", Hint: "use " + list,
	}).Write(w)
}

// faultOf returns what an error of a change means to whoever asked for it.
func faultOf(err error) *envelope.Fault {
	if files, ok := errors.AsType[*rule.Errors](err); ok {
		return badFile(files)
	}
	if wrong, ok := errors.AsType[*catalog.Error](err); ok {
		return envelope.Bad(wrong.Field, wrong.Problem, wrong.Hint)
	}
	if wrong, ok := errors.AsType[*rule.Error](err); ok {
		return envelope.Bad("", wrong.Problem, wrong.Hint)
	}
	if unmet, ok := errors.AsType[*book.PreconditionError](err); ok {
		return &envelope.Fault{
			Status: http.StatusPreconditionFailed, Code: envelope.Precondition,
			Problem: unmet.Error(), Hint: "get the rule, make the change to what is there now, and send its ETag as If-Match",
		}
	}
	if stale, ok := errors.AsType[*book.StaleError](err); ok {
		return &envelope.Fault{
			Status: http.StatusPreconditionFailed, Code: envelope.Precondition, Context: hashContext{stale.Hash},
			Problem: stale.Error(), Hint: "look at the rules that are there now, and send that hash as If-Match",
		}
	}
	if store, ok := errors.AsType[*disk.Error](err); ok {
		return &envelope.Fault{Status: http.StatusInsufficientStorage, Code: envelope.NotSaved, Problem: "not saved: " + store.Error(), Hint: store.Hint}
	}
	switch {
	case errors.Is(err, book.ErrReadOnly):
		return &envelope.Fault{
			Status: http.StatusConflict, Code: envelope.ReadOnly,
			Problem: "the rules of this service come from files and cannot be changed here",
			Hint:    "change the files, or start the service with --catalog-db FILE instead of --catalog",
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &envelope.Fault{Status: http.StatusRequestTimeout, Code: envelope.Timeout, Problem: "the body did not arrive in time", Hint: "send it at once"}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge()
	}
	return envelope.Bad("", "the body could not be read", "send as many bytes as Content-Length says, or whole chunks")
}

func tooLarge() *envelope.Fault {
	return &envelope.Fault{
		Status: http.StatusRequestEntityTooLarge, Code: envelope.TooLarge,
		Problem: "the body is too large", Hint: fmt.Sprintf("send at most %d bytes of one rule, %d of an import", maxRule, maxImport),
	}
}

// badFile says what is wrong with the rules of an import.
func badFile(files *rule.Errors) *envelope.Fault {
	context := faultsContext{Faults: []lineFault{}}
	for _, e := range files.List {
		context.Faults = append(context.Faults, lineFault{e.Line, e.Problem, e.Hint})
	}
	first := files.List[0]
	f := &envelope.Fault{Status: http.StatusBadRequest, Code: envelope.BadRequest, Problem: first.Problem, Hint: first.Hint, Context: context}
	if first.Line > 0 {
		f.Problem = fmt.Sprintf("line %d: %s", first.Line, f.Problem)
	}
	return f
}
