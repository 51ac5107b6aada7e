package ruleapi

import (
	"errors"
	"mime"
	"net/http"
	"strings"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
)

// importAnswer is the result of an import.
type importAnswer struct {
	Imported int `json:"imported"`
	standing
}

// load imports the rules of a body.
func (a *api) load(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxText, "mode")
	if f != nil {
		f.Write(w)
		return
	}
	var how book.Import
	switch mode := query.Get("mode"); {
	case mode == "replace":
		how.Replace = true
	case mode != "merge" && query.Has("mode"):
		jsonbody.Bad("mode", text.Quote(mode)+" is not a mode", "write merge, which leaves other rules as they are, or replace, which removes them").Write(w)
		return
	}
	if how.Hash, f = ifMatch(r); f != nil {
		f.Write(w)
		return
	}
	csv, f := jsonbody.ImportType(r)
	if f != nil {
		f.Write(w)
		return
	}
	format := book.JSONLines
	if csv {
		format = book.CSV
	}
	jsonbody.ExtendDeadlines(w)
	body := http.MaxBytesReader(w, r.Body, maxImport)
	n, err := a.book.Import(a.context(r), book.ReadRules("body", format, body), how)
	if wrong, ok := errors.AsType[*catalog.Error](err); ok {
		jsonbody.Bad("", "rule "+wrong.ID+": "+wrong.Problem, wrong.Hint).Write(w)
		return
	}
	if err != nil {
		a.failed(w, r, err)
		return
	}
	answer := importAnswer{n, a.standing()}
	a.log.Info("rules imported", "imported", n, "replace", how.Replace, "peer", r.RemoteAddr,
		"rules", answer.Count, "generation", answer.Generation, "hash", answer.Hash)
	if f := a.changed(r, "import", Imported, nil, answer); f != nil {
		f.Write(w)
		return
	}
	w.Header().Set("ETag", `"`+answer.Hash+`"`)
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// ifMatch returns the hash that the current rules must have for an import; "" for any.
func ifMatch(r *http.Request) (string, *jsonbody.Fault) {
	given := r.Header.Values("If-Match")
	if len(given) == 0 {
		return "", nil
	}
	hash, opened := strings.CutPrefix(given[0], `"`)
	hash, closed := strings.CutSuffix(hash, `"`)
	if len(given) > 1 || !opened || !closed || hash == "" || strings.Contains(hash, `"`) {
		return "", jsonbody.Bad("If-Match", "not one hash in double quotes", "send the ETag of GET "+Path+" as it is, or leave the header out")
	}
	return hash, nil
}

// mustBeJSON refuses a body of another media type. It accepts a missing type and curl's default
// type.
func mustBeJSON(r *http.Request) *jsonbody.Fault {
	given := r.Header.Get("Content-Type")
	switch kind, _, _ := mime.ParseMediaType(given); {
	case given == "", kind == "application/json", kind == "application/x-www-form-urlencoded":
		return nil
	}
	return jsonbody.WrongType(given, "send application/json")
}

// readAll reads the body of one rule.
func readAll(r *http.Request) ([]byte, *jsonbody.Fault) {
	body, err := jsonbody.Read(nil, r, maxRule)
	if err != nil {
		return nil, jsonbody.ReadFault(err, maxRule)
	}
	return body, nil
}
