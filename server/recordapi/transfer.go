package recordapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/records"
	"stint/records/transfer"
)

// maxImport is the maximum size of an import in bytes.
const maxImport = 1 << 30

// importAnswer is the result of an import.
type importAnswer struct {
	DryRun   bool   `json:"dry_run"` // nothing was changed
	Revision uint64 `json:"revision"`
	transfer.Difference
}

// load imports the records of a body.
func (a *api) load(w http.ResponseWriter, r *http.Request) {
	o, f := a.importOptions(r)
	if f != nil {
		f.Write(w)
		return
	}
	jsonbody.ExtendDeadlines(w)
	spool, err := os.CreateTemp("", "stint-import-*")
	if err != nil {
		(&jsonbody.Fault{
			Status: http.StatusInsufficientStorage, Code: jsonbody.NotSaved,
			Problem: "cannot keep the import in a file: " + err.Error(), Hint: "let this user write in " + os.TempDir() + ", or set TMPDIR",
		}).Write(w)
		return
	}
	defer func() { _, _ = spool.Close(), os.Remove(spool.Name()) }() // nobody else has the file
	if _, err := io.Copy(spool, http.MaxBytesReader(w, r.Body, maxImport)); err != nil {
		a.failed(w, r, err, false)
		return
	}
	diff, outcome, err := transfer.Import(r.Context(), a.file, spool, o, time.Now())
	if err != nil {
		a.refuse(w, r, importFault(err, conditional(r)))
		return
	}
	if !o.DryRun {
		a.log.Info("records imported", "added", diff.Added, "changed", diff.Changed, "deleted", diff.Deleted, "unchanged", diff.Unchanged,
			"revision", outcome.Revision, "caller", o.Change.By.Name, "peer", r.RemoteAddr)
	}
	w.Header().Set("ETag", tag(outcome.Revision))
	jsonbody.WriteJSON(w, http.StatusOK, importAnswer{o.DryRun, outcome.Revision, diff})
}

// importOptions reads the parameters and headers of an import.
func (a *api) importOptions(r *http.Request) (o transfer.Options, f *jsonbody.Fault) {
	o.Warn = a.warn
	query, f := jsonbody.Query(r, maxQuery, "mode", "kind", "dry_run", "force")
	if f != nil {
		return o, f
	}
	switch mode := query.Get("mode"); {
	case mode == "replace":
		o.Replace = true
	case mode != "merge" && query.Has("mode"):
		return o, jsonbody.Bad("mode", text.Quote(mode)+" is not a mode", "write merge, which leaves other records as they are, or replace, which deletes them")
	}
	csv, f := jsonbody.ImportType(r)
	if f != nil {
		return o, f
	}
	if csv {
		o.Format = transfer.CSV
	}
	if o.Kinds, f = a.kindsOf(query); f != nil {
		return o, f
	}
	if o.Change, f = newChange(r, nil, ""); f != nil {
		return o, f
	}
	if o.DryRun, f = flag(query, "dry_run"); f != nil {
		return o, f
	}
	if o.Change.Force, f = flag(query, "force"); f != nil {
		return o, f
	}
	if o.Change.IdempotencyKey != "" {
		return o, jsonbody.Bad(idempotencyHeader, "an import takes none", "repeat the import: records that are equal already are not written again")
	}
	o.Change.IfMatch, f = wholeMatch(r)
	return o, f
}

// wholeMatch returns the revision that the records must have; 0 for any.
func wholeMatch(r *http.Request) (uint64, *jsonbody.Fault) {
	given := r.Header.Values("If-Match")
	if len(given) == 0 {
		return 0, nil
	}
	unquoted, err := strconv.Unquote(given[0])
	n, err2 := strconv.ParseUint(unquoted, 10, 64)
	if len(given) > 1 || err != nil || err2 != nil || n == 0 {
		return 0, jsonbody.Bad("If-Match", "not one revision in double quotes", "send the ETag of GET /v1/records as it is, or leave the header out")
	}
	return n, nil
}

// flag reads a parameter that is true or false.
func flag(query url.Values, name string) (bool, *jsonbody.Fault) {
	switch written := query.Get(name); {
	case !query.Has(name), written == "0", written == "false":
		return false, nil
	case written == "1", written == "true":
		return true, nil
	default:
		return false, jsonbody.Bad(name, text.Quote(written)+" is neither true nor false", "write 1, or leave it out")
	}
}

// kindsOf returns the kinds that a request is about: all, or one.
func (a *api) kindsOf(query url.Values) ([]records.Kind, *jsonbody.Fault) {
	kinds, kind := transfer.KindsOf(a.file), records.Kind(query.Get("kind"))
	switch {
	case !query.Has("kind"):
		return kinds, nil
	case slices.Contains(kinds, kind):
		return []records.Kind{kind}, nil
	case kind == records.Rules:
		return nil, jsonbody.Bad("kind", "the rules per API of this service are not among its records", "see /v1/rules: they come from --catalog or --catalog-db")
	}
	return nil, jsonbody.Bad("kind", text.Quote(string(kind))+" is no kind of records", "write "+transfer.KindNames+", or leave it out for all")
}

// warn returns a warning about an override or a grant of an import.
func (a *api) warn(r records.Record) string {
	warning, f := a.checkRules(r, time.Now())
	if f != nil {
		return f.Where()
	}
	return warning
}

// save exports records.
func (a *api) save(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxQuery, "kind", "format")
	var kinds []records.Kind
	if f == nil {
		kinds, f = a.kindsOf(query)
	}
	format, contentType := transfer.JSONLines, "application/jsonl"
	switch written := query.Get("format"); {
	case f != nil:
	case written == "csv":
		format, contentType = transfer.CSV, "text/csv; charset=utf-8"
	case written != "jsonl" && query.Has("format"):
		f = jsonbody.Bad("format", text.Quote(written)+" is no format", "write csv or jsonl")
	}
	if f != nil {
		f.Write(w)
		return
	}
	jsonbody.ExtendDeadlines(w)
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Disposition", "attachment")
	if err := transfer.Export(a.file, transfer.NewWriter(w, format, kinds...), kinds, time.Now()); err != nil {
		a.log.Error("export of records ended early", "error", err, "peer", r.RemoteAddr)
		panic(http.ErrAbortHandler) // the status is sent: only a cut answer can say it
	}
}

// erasedAnswer is the answer to an erasure.
type erasedAnswer struct {
	Revision uint64 `json:"revision"`
	Records  int    `json:"records"` // that were deleted
	Entries  int    `json:"entries"` // of the audit trail whose texts were erased
}

// eraseSubject erases all that is kept of a subject.
func (a *api) eraseSubject(w http.ResponseWriter, r *http.Request, subject string) {
	erased, err := a.file.Erase(r.Context(), subject, By(r), time.Now())
	if err != nil {
		a.failed(w, r, err, false)
		return
	}
	a.log.Info("subject erased", "records", erased.Records, "entries", erased.Entries, "revision", erased.Revision, "caller", By(r).Name, "peer", r.RemoteAddr)
	jsonbody.WriteJSON(w, http.StatusOK, erasedAnswer{erased.Revision, erased.Records, erased.Entries})
}

// exportSubject writes all that is kept of a subject: its records, then its entries of the audit
// trail.
func (a *api) exportSubject(w http.ResponseWriter, r *http.Request, subject string) {
	entries, audit, err := a.file.Export(subject)
	if err != nil {
		a.failed(w, r, err, false)
		return
	}
	list, now := []shown{}, time.Now()
	for _, e := range entries {
		s := show(e, now)
		s.Record = string(e.Record.ID().Kind)
		list = append(list, s)
	}
	name, _ := json.Marshal(subject) // cannot fail: a text
	found, err := json.Marshal(list)
	if err != nil {
		a.failed(w, r, err, false)
		return
	}
	jsonbody.ExtendDeadlines(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprintf(w, `{"subject":%s,"records":%s,"audit":[`, name, found)
	comma := ""
	for e, err := range audit {
		var line []byte
		if err == nil {
			line, err = json.Marshal(e)
		}
		if err != nil {
			a.log.Error("export of a subject ended early", "error", err, "peer", r.RemoteAddr)
			panic(http.ErrAbortHandler) // the status is sent: only a cut answer can say it
		}
		fmt.Fprintf(w, "%s%s", comma, line)
		comma = ","
	}
	fmt.Fprintln(w, "]}")
}
