package recordapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/records"
	"stint/records/transfer"
)

// partContext is the context of an import of which a part was made.
type partContext struct {
	Applied int `json:"applied"`
	Of      int `json:"of"`
}

// lineContext is the context of a fault in a line of an import.
type lineContext struct {
	Line int `json:"line"`
}

// FaultOf returns the fault for an error of a change of records; nil for another error.
func FaultOf(err error) *jsonbody.Fault {
	_, whole := errors.AsType[*records.Error](err)
	_, partly := errors.AsType[*transfer.PartError](err)
	if !whole && !partly {
		return nil
	}
	return faultOf(err, false)
}

// faultOf returns the fault for an error. conditional is whether the request names a revision.
func faultOf(err error, conditional bool) *jsonbody.Fault {
	if part, ok := errors.AsType[*transfer.PartError](err); ok {
		f := importFault(part.Err, false)
		f.Problem = fmt.Sprintf("%d of %d records were imported, then: %s", part.Applied, part.Of, f.Where())
		f.Field, f.Context = "", partContext{part.Applied, part.Of}
		f.Hint += "; then send the same import again, which continues where this one ended"
		return f
	}
	if line, ok := errors.AsType[*transfer.LineError](err); ok {
		f := jsonbody.Bad("", line.Error(), line.Hint)
		f.Context = lineContext{line.Line}
		return f
	}
	wrong, ok := errors.AsType[*records.Error](err)
	if !ok {
		return otherFault(err)
	}
	f := jsonbody.Bad("", wrong.Problem, wrong.Hint)
	switch {
	case errors.Is(err, records.ErrMissing):
		f.Status, f.Code, f.Problem = http.StatusNotFound, jsonbody.NotFound, "there is no "+wrong.Where
		if subject, erasing := strings.CutPrefix(wrong.Where, "erase: "); erasing {
			f.Problem = "nothing is kept of " + subject
		}
	case errors.Is(err, records.ErrConflict) && conditional:
		f.Status, f.Code, f.Problem = http.StatusPreconditionFailed, jsonbody.Precondition, wrong.Error()
	case errors.Is(err, records.ErrConflict):
		f.Status, f.Code, f.Problem = http.StatusConflict, jsonbody.Conflict, wrong.Error()
	case errors.Is(err, records.ErrReused):
		f.Status, f.Code, f.Field = http.StatusUnprocessableEntity, jsonbody.KeyReused, "Idempotency-Key"
	case errors.Is(err, records.ErrUnavailable):
		f.Status, f.Code, f.Problem = http.StatusServiceUnavailable, jsonbody.Unavailable, wrong.Error()
	case errors.Is(err, records.ErrTooLarge):
		f.Status, f.Code, f.Problem = http.StatusRequestEntityTooLarge, jsonbody.TooLarge, wrong.Error()
	case errors.Is(err, records.ErrUnfit):
		f.Problem = wrong.Error()
	case wrong.Err != nil: // the disk, or the file
		f.Status, f.Code, f.Problem = http.StatusInsufficientStorage, jsonbody.NotSaved, wrong.Error()
	default:
		f.Field = wrong.Where
		if i := strings.LastIndex(wrong.Where, ": "); i >= 0 {
			f.Field = wrong.Where[i+2:]
		}
	}
	return f
}

// importFault is faultOf for an import: a fault of a record that only the change of records finds names the record,
// as the body has many.
func importFault(err error, conditional bool) *jsonbody.Fault {
	f := faultOf(err, conditional)
	if wrong, ok := errors.AsType[*records.Error](err); ok && f.Field != "" {
		f.Field, f.Problem = "", wrong.Error()
	}
	return f
}

// otherFault returns the fault for an error that is not about the records.
func otherFault(err error) *jsonbody.Fault {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return jsonbody.RefuseTooLarge(maxImport)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &jsonbody.Fault{Status: http.StatusServiceUnavailable, Code: jsonbody.Unavailable, Problem: "the caller went away, or the service ends", Hint: "send it again"}
	}
	return jsonbody.ReadFault(err, maxImport)
}

// failed answers a request with an error.
func (a *api) failed(w http.ResponseWriter, r *http.Request, err error, conditional bool) {
	a.refuse(w, r, faultOf(err, conditional))
}

// refuse answers a request with a fault.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, f *jsonbody.Fault) {
	if f.Status >= http.StatusInternalServerError {
		a.log.Error("records request failed", "method", r.Method, "path", logging.Route(r, Paths...), "error", f.Problem, "hint", f.Hint)
	}
	f.Write(w)
}
