package ruleapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/text"
	"stint/rule/catalog"
	"stint/rule/catalog/book"
)

// Path is the path of the API, which handles it and all paths below.
const Path = "/v1/rules"

// The maximum sizes of bodies, in bytes.
const (
	maxRule   = 16 << 10
	maxImport = 1 << 30
)

// api handles the requests.
type api struct {
	book    *book.Book
	log     *slog.Logger
	changed func(r *http.Request, action, id string, before, after any) *jsonbody.Fault
	context func(r *http.Request) context.Context
	fault   func(err error) *jsonbody.Fault
}

// Options are the settings of the API.
type Options struct {
	Log *slog.Logger // receives each change; may be nil

	// Changed is called after a change, with the action put, delete or import, the id of the rule, and
	// the rule before and after, which it can encode as JSON; nil for none. An import has the id
	// [Imported]. The change stays in force whatever it returns; a fault is answered. It may be nil.
	Changed func(r *http.Request, action, id string, before, after any) *jsonbody.Fault

	// Context returns the context of changes of a book of shared rules; nil for that of the request.
	Context func(r *http.Request) context.Context

	// Fault returns the answer to an error of such a change; nil where it knows none. It may be nil.
	Fault func(err error) *jsonbody.Fault
}

// Imported is the id of Options.Changed after an import.
const Imported = "(import)"

// New returns the handler of [Path] and all paths below. The caller must restrict access to it.
func New(b *book.Book, o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(*http.Request, string, string, any, any) *jsonbody.Fault { return nil }
	}
	if o.Context == nil {
		o.Context = (*http.Request).Context
	}
	if o.Fault == nil {
		o.Fault = func(error) *jsonbody.Fault { return nil }
	}
	return &api{book: b, log: o.Log, changed: o.Changed, context: o.Context, fault: o.Fault}
}

// ServeHTTP handles a request. It takes the ID from the path as sent and decodes only its escapes,
// so any ID can be used.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), Path)
	if rest == "" {
		a.all(w, r)
		return
	}
	id, err := url.PathUnescape(strings.TrimPrefix(rest, "/"))
	if err != nil || id == "" || rest[0] != '/' {
		jsonbody.NoSuch("no rule has this path", "write "+Path+"/ and the id of a rule, with %2F for a slash").Write(w)
		return
	}
	a.one(w, r, id)
}

// all handles the path of all rules.
func (a *api) all(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		a.list(w, r)
	case http.MethodPost:
		a.load(w, r)
	default:
		jsonbody.RefuseMethod(w, r, "GET", "HEAD", "POST")
	}
}

// one handles the path of one rule.
func (a *api) one(w http.ResponseWriter, r *http.Request, id string) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		a.show(w, r, id)
	case http.MethodPut:
		a.put(w, r, id)
	case http.MethodDelete:
		a.remove(w, r, id)
	default:
		jsonbody.RefuseMethod(w, r, "GET", "HEAD", "PUT", "DELETE")
	}
}

// ruleAnswer is a rule in JSON; PUT and imports accept the same form.
type ruleAnswer struct {
	ID        string  `json:"id"`
	UID       string  `json:"uid"`
	URL       string  `json:"url"`
	Time      string  `json:"time,omitempty"`
	Requests  *uint64 `json:"requests,omitempty"` // nil for an unlimited rule
	Algorithm string  `json:"algorithm,omitempty"`
	Burst     uint64  `json:"burst,omitempty"`
	Domain    string  `json:"domain,omitempty"`
	Policy    string  `json:"policy,omitempty"`
}

func shown(r *catalog.Rule) ruleAnswer {
	answer := ruleAnswer{
		ID: r.ID, UID: r.UID, URL: r.URL, Time: r.Time,
		Algorithm: r.Algorithm, Burst: r.Burst, Domain: r.Domain, Policy: r.Policy,
	}
	if r.Time != "" {
		answer.Requests = &r.Requests
	}
	return answer
}

// tag returns the entity tag of a rule, which depends on all of its fields.
func tag(r *catalog.Rule) string {
	text, _ := json.Marshal(shown(r)) // cannot fail: only texts and numbers
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

func (a *api) show(w http.ResponseWriter, r *http.Request, id string) {
	found, ok := a.book.Catalog().Get(id)
	if !ok {
		missing(id).Write(w)
		return
	}
	w.Header().Set("ETag", tag(&found))
	if matches(r.Header.Values("If-None-Match"), &found, true) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	jsonbody.WriteJSON(w, http.StatusOK, shown(&found))
}

func missing(id string) *jsonbody.Fault {
	return jsonbody.NoSuch("there is no rule "+text.Quote(id), "see GET "+Path+" for those there are")
}

func (a *api) put(w http.ResponseWriter, r *http.Request, id string) {
	rule, f := a.readRule(r, id)
	if f != nil {
		f.Write(w)
		return
	}
	must, f := precondition(r)
	if f != nil {
		f.Write(w)
		return
	}
	before, capture := captured(must)
	created, err := a.book.Put(a.context(r), rule, capture)
	if err != nil {
		a.failed(w, r, err)
		return
	}
	rule, _ = a.book.Catalog().Get(id) // with its default domain
	a.log.Info("rule put", "id", id, "created", created, "peer", r.RemoteAddr, "rules", a.book.Catalog().Len())
	if f := a.changed(r, "put", id, *before, shown(&rule)); f != nil {
		f.Write(w)
		return
	}
	w.Header().Set("ETag", tag(&rule))
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	jsonbody.WriteJSON(w, status, shown(&rule))
}

// readRule decodes the body of a PUT.
func (a *api) readRule(r *http.Request, id string) (catalog.Rule, *jsonbody.Fault) {
	if f := mustBeJSON(r); f != nil {
		return catalog.Rule{}, f
	}
	body, f := readAll(r)
	if f != nil {
		return catalog.Rule{}, f
	}
	rule, err := book.ReadOne(body, id)
	if err != nil {
		return rule, a.faultOf(err)
	}
	if rule.ID != id {
		return rule, jsonbody.Bad("id", text.Quote(rule.ID)+" is not the id of the path", "leave it out of the body, or write the same")
	}
	return rule, nil
}

func (a *api) remove(w http.ResponseWriter, r *http.Request, id string) {
	must, f := precondition(r)
	if f != nil {
		f.Write(w)
		return
	}
	before, capture := captured(must)
	there, err := a.book.Delete(a.context(r), id, capture)
	switch {
	case err != nil:
		a.failed(w, r, err)
	case !there:
		missing(id).Write(w)
	default:
		a.log.Info("rule deleted", "id", id, "peer", r.RemoteAddr, "rules", a.book.Catalog().Len())
		if f := a.changed(r, "delete", id, *before, nil); f != nil {
			f.Write(w)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// captured returns a precondition that also stores the present rule in before.
func captured(must book.Precondition) (before *any, _ book.Precondition) {
	before = new(any)
	return before, func(present catalog.Rule, exists bool) bool {
		if exists {
			*before = shown(&present)
		}
		return must == nil || must(present, exists)
	}
}

// failed answers a change that was not made.
func (a *api) failed(w http.ResponseWriter, r *http.Request, err error) {
	f := a.faultOf(err)
	if f.Status >= http.StatusInternalServerError {
		a.log.Error("rules not changed", "method", r.Method, "path", logging.Route(r, Path), "error", f.Problem, "hint", f.Hint)
	}
	f.Write(w)
}

// precondition returns the precondition in the header of a change.
func precondition(r *http.Request) (book.Precondition, *jsonbody.Fault) {
	match, noneMatch := r.Header.Values("If-Match"), r.Header.Values("If-None-Match")
	if match == nil && noneMatch == nil {
		return nil, nil
	}
	if f := jsonbody.CheckTags(match, noneMatch, Path+"/{id}"); f != nil {
		return nil, f
	}
	return func(present catalog.Rule, exists bool) bool {
		if match != nil && !(exists && matches(match, &present, false)) {
			return false
		}
		return noneMatch == nil || !exists
	}, nil
}

// matches reports whether lists of entity tags contain that of a rule, or a star. If weak, weak
// tags match too.
func matches(lists []string, r *catalog.Rule, weak bool) bool {
	own := ""
	for _, item := range jsonbody.Tags(lists) {
		if weak {
			item = strings.TrimPrefix(item, "W/")
		}
		if own == "" {
			own = tag(r)
		}
		if item == "*" || item == own {
			return true
		}
	}
	return false
}
