package ruleapi

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"stint/internal/jsonbody"
	"stint/rule"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
)

// faultsContext are the faults in a file of rules.
type faultsContext struct {
	Faults []lineFault `json:"faults"`
}

type lineFault struct {
	Line    int    `json:"line"` // 0 for no line
	Problem string `json:"problem"`
	Hint    string `json:"hint"`
}

// hashContext is the hash of the current rules.
type hashContext struct {
	Hash string `json:"hash"`
}

// faultOf returns the fault for an error of a change.
func (a *api) faultOf(err error) *jsonbody.Fault {
	if files, ok := errors.AsType[*rule.Errors](err); ok {
		return badFile(files)
	}
	if wrong, ok := errors.AsType[*catalog.Error](err); ok {
		return jsonbody.Bad(wrong.Field, wrong.Problem, wrong.Hint)
	}
	if wrong, ok := errors.AsType[*rule.Error](err); ok {
		return jsonbody.Bad("", wrong.Problem, wrong.Hint)
	}
	if unmet, ok := errors.AsType[*book.PreconditionError](err); ok {
		return &jsonbody.Fault{
			Status: http.StatusPreconditionFailed, Code: jsonbody.Precondition,
			Problem: unmet.Error(), Hint: "get the rule, make the change to what is there now, and send its ETag as If-Match",
		}
	}
	if stale, ok := errors.AsType[*book.StaleError](err); ok {
		return &jsonbody.Fault{
			Status: http.StatusPreconditionFailed, Code: jsonbody.Precondition, Context: hashContext{stale.Hash},
			Problem: stale.Error(), Hint: "look at the rules that are there now, and send that hash as If-Match",
		}
	}
	if store, ok := errors.AsType[*book.DiskError](err); ok {
		return &jsonbody.Fault{Status: http.StatusInsufficientStorage, Code: jsonbody.NotSaved, Problem: "not saved: " + store.Error(), Hint: store.Hint}
	}
	if f := a.fault(err); f != nil {
		return f
	}
	switch {
	case errors.Is(err, book.ErrReadOnly):
		return &jsonbody.Fault{
			Status: http.StatusConflict, Code: jsonbody.ReadOnly,
			Problem: "the rules of this service come from files and cannot be changed here",
			Hint:    "change the files, or start the service with --catalog-db FILE or --records instead of --catalog",
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &jsonbody.Fault{Status: http.StatusRequestTimeout, Code: jsonbody.Timeout, Problem: "the body did not arrive in time", Hint: "send it at once"}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge()
	}
	return jsonbody.Bad("", "the body could not be read", "send as many bytes as Content-Length says, or whole chunks")
}

func tooLarge() *jsonbody.Fault {
	return &jsonbody.Fault{
		Status: http.StatusRequestEntityTooLarge, Code: jsonbody.TooLarge,
		Problem: "the body is too large", Hint: fmt.Sprintf("send at most %d bytes of one rule, %d of an import", maxRule, maxImport),
	}
}

// badFile returns the fault for an import with invalid rules.
func badFile(files *rule.Errors) *jsonbody.Fault {
	context := faultsContext{Faults: []lineFault{}}
	for _, e := range files.List {
		context.Faults = append(context.Faults, lineFault{e.Line, e.Problem, e.Hint})
	}
	first := files.List[0]
	f := &jsonbody.Fault{Status: http.StatusBadRequest, Code: jsonbody.BadRequest, Problem: first.Problem, Hint: first.Hint, Context: context}
	if first.Line > 0 {
		f.Problem = fmt.Sprintf("line %d: %s", first.Line, f.Problem)
	}
	return f
}
