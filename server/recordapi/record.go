package recordapi

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/records"
	"stint/records/transfer"
	"stint/rule"
	"stint/server/access"
)

const (
	// maxBody is the maximum size of a body with one record in bytes: the longest texts, with all
	// characters written as escapes.
	maxBody = 256 << 10

	// maxQuery is the maximum length of a query parameter in bytes.
	maxQuery = records.MaxSubject + records.MaxName + 1

	// maxScan is the maximum number of records that are examined for one page. A page whose filter
	// skips nearly all records ends early, and Next continues from there.
	maxScan = 50_000

	// step is the number of records read from the file at a time.
	step = 1000
)

// shown is a record in an answer.
type shown struct {
	transfer.Fields
	Revision uint64    `json:"revision"`
	Changed  time.Time `json:"changed"`
	Ended    bool      `json:"ended,omitempty"` // it is not in force any more
}

func show(e records.Entry, now time.Time) shown {
	if subject, is := e.Record.(records.Subject); is {
		subject.Next.Settle(&subject.Plan, now)
		e.Record = subject
	}
	s := shown{Fields: transfer.FieldsOf(e.Record), Revision: e.Revision, Changed: e.Changed}
	if until, err := time.Parse(time.RFC3339, s.Until); err == nil {
		s.Ended = !now.Before(until)
	}
	return s
}

// pageAnswer is a page of records.
type pageAnswer struct {
	Records []shown `json:"records"`

	// Next is the value of the parameter after for the next page; null after the last page.
	Next *string `json:"next"`

	Revision uint64 `json:"revision"`
}

// filters are the fields by which the records of a kind can be listed.
var filters = map[records.Kind][]string{
	records.Subjects:  {"plan"},
	records.Overrides: {"subject", "rule"},
	records.Bans:      nil,
	records.APIKeys:   {"subject"},
	records.Plans:     nil,
	records.Grants:    {"subject"},
}

func (a *api) list(w http.ResponseWriter, r *http.Request, c collection) {
	query, f := jsonbody.Query(r, maxQuery, append([]string{"after", "limit"}, filters[c.kind]...)...)
	limit := 0
	if f == nil {
		limit, f = jsonbody.PageLimit(query, "records")
	}
	if f != nil {
		f.Write(w)
		return
	}
	fits := func(s *shown) bool {
		return (!query.Has("subject") || s.Subject == query.Get("subject")) &&
			(!query.Has("rule") || s.Rule == query.Get("rule")) && (!query.Has("plan") || s.Plan == query.Get("plan"))
	}
	answer := pageAnswer{Records: []shown{}}
	var err error
	if answer.Revision, err = a.file.Revision(); err == nil {
		of := span{kind: c.kind, after: query.Get("after")}
		if query.Has("subject") && (c.kind == records.Overrides || c.kind == records.Grants) {
			of.prefix = transfer.SubjectPrefix(query.Get("subject"))
			of.after = max(of.after, of.prefix)
		}
		err = a.page(&answer, of, limit, fits)
	}
	if err != nil {
		a.failed(w, r, err, false)
		return
	}
	if notModified(w, r, answer.Revision) {
		return
	}
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// span is the records of a kind that follow a name, and whose names have a prefix.
type span struct {
	kind          records.Kind
	prefix, after string
}

// page fills a page with the records that fit.
func (a *api) page(answer *pageAnswer, of span, limit int, fits func(*shown) bool) error {
	now, last := time.Now(), of.after
	for range maxScan / step {
		entries, err := a.file.Page(of.kind, last, step)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Record.ID().Name, of.prefix) {
				return nil
			}
			s := show(e, now)
			if fits(&s) {
				if len(answer.Records) == limit {
					answer.Next = &last
					return nil
				}
				answer.Records = append(answer.Records, s)
			}
			last = e.Record.ID().Name
		}
		if len(entries) < step {
			return nil
		}
	}
	answer.Next = &last
	return nil
}

// notModified sets the ETag. It answers 304 if the request has it in If-None-Match.
func notModified(w http.ResponseWriter, r *http.Request, revision uint64) bool {
	w.Header().Set("ETag", tag(revision))
	for _, item := range jsonbody.Tags(r.Header.Values("If-None-Match")) {
		if item == "*" || item == tag(revision) || item == "W/"+tag(revision) {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}

func (a *api) show(w http.ResponseWriter, r *http.Request, c collection, name string) {
	e, there, err := a.file.Get(records.ID{Kind: c.kind, Name: name})
	switch {
	case err != nil:
		a.failed(w, r, err, false)
	case !there:
		missing(records.ID{Kind: c.kind, Name: name}, c).Write(w)
	case !notModified(w, r, e.Revision):
		jsonbody.WriteJSON(w, http.StatusOK, show(e, time.Now()))
	}
}

func missing(id records.ID, c collection) *jsonbody.Fault {
	return jsonbody.NoSuch("there is no "+id.String(), "see GET "+c.path+" for those there are")
}

// body is what a request says about a record.
type body struct {
	transfer.Fields
	force bool
	from  string // of a change of plan: "" for now
	raw   []byte // a copy of the bytes
}

// read decodes the body of a request about a record.
func read(r *http.Request, kind records.Kind) (b body, f *jsonbody.Fault) {
	names := transfer.FieldNames(kind)
	switch kind {
	case records.Bans:
		names = append(names, "force")
	case records.Subjects:
		names = append(names, "from")
	}
	b.raw, f = readObject(r, names, func(s *jsonbody.Scanner, name string) (f *jsonbody.Fault) {
		switch {
		case name == "force":
			b.force, f = s.Truth()
			return f
		case name == "from" && kind == records.Subjects:
			text, f := s.Text()
			b.from = strings.Clone(string(text))
			return f
		}
		return b.ReadJSON(s, name)
	})
	return b, f
}

// readObject reads the body of a request, which is an object, and returns a copy of its bytes. It
// calls each to read the value of a field. An empty body has no fields.
func readObject(r *http.Request, names []string, each func(s *jsonbody.Scanner, name string) *jsonbody.Fault) ([]byte, *jsonbody.Fault) {
	if f := jsonbody.CheckType(r.Header.Get("Content-Type")); f != nil {
		return nil, f
	}
	data, err := jsonbody.Read(nil, r, maxBody)
	if err != nil {
		return nil, jsonbody.ReadFault(err, maxBody)
	}
	if len(data) == 0 {
		return nil, nil
	}
	raw := bytes.Clone(data) // the scanner changes the bytes
	s := jsonbody.Scanner{Data: data}
	if _, f := s.Object(names, func(field int) *jsonbody.Fault { return each(&s, names[field]) }); f != nil {
		return raw, f
	}
	return raw, s.End()
}

// identify fills the fields that name a record from the path, unless the body has them.
func (b *body) identify(kind records.Kind, name string) {
	switch kind {
	case records.Plans:
		b.Plan = cmp.Or(b.Plan, name)
	case records.Grants:
		subject, id := transfer.CutOverride(name)
		b.Subject, b.ID = cmp.Or(b.Subject, subject), cmp.Or(b.ID, id)
	}
	if name == "" || b.Subject != "" || b.Pattern != "" || b.Address != "" || b.Network != "" {
		return
	}
	switch kind {
	case records.Subjects:
		b.Subject = name
	case records.Bans:
		if network, err := records.ParseNetwork(name); err == nil {
			b.Network = network.String()
		} else {
			b.Subject = name
		}
	case records.Overrides:
		target, rule := transfer.CutOverride(name)
		o := records.Override{Target: target}
		if o.IsPattern() {
			b.Pattern = target
		} else {
			b.Subject = target
		}
		if b.Rule == "" {
			b.Rule = rule
		}
	}
}

func (a *api) put(w http.ResponseWriter, r *http.Request, c collection, name string) {
	b, f := read(r, c.kind)
	var put records.Record
	if f == nil {
		b.identify(c.kind, name)
		b.nameGrant(r, c.kind)
		put, f = b.Read(c.kind, time.Now())
	}
	if f == nil && name != "" && put.ID().Name != name {
		f = jsonbody.Bad("", "the body names another "+string(c.kind)+" than the path", "leave it out of the body, or write the same")
	}
	if f != nil {
		f.Write(w)
		return
	}
	id := put.ID()
	before, there, err := a.file.Get(id)
	if err != nil {
		a.failed(w, r, err, false)
		return
	}
	if !a.may(w, r, put, before, b.force) {
		return
	}
	change, f := newChange(r, b.raw, b.Why)
	warning := ""
	if f == nil && b.from != "" {
		put, f = a.putLater(put, before, b.from, time.Now())
	}
	if f == nil {
		warning, f = a.checkRules(put, time.Now())
	}
	if f != nil {
		f.Write(w)
		return
	}
	change.Force = b.force
	if outcome, ok := a.edit(w, r, &change, records.Edit{Put: put}, name == "", before, there); ok {
		a.answerPut(w, r, c, id, putAnswer{Repeated: outcome.Repeated, Warning: warning, created: !there && !outcome.Repeated})
	}
}

// checkRules refuses an override whose rule cannot have its numbers, and a grant of a limit that can have none.
// It returns a warning where no rule has the name: the rule may be on other nodes only, or may come later. So
// it does for a subject whose plan is unknown.
func (a *api) checkRules(put records.Record, now time.Time) (warning string, f *jsonbody.Fault) {
	switch put := put.(type) {
	case records.Subject:
		return a.warnOfPlan(&put), nil
	case records.Override:
		return a.checkOverride(&put)
	case records.Grant:
		return a.checkGrant(&put, now)
	}
	return "", nil
}

func (a *api) checkOverride(o *records.Override) (warning string, f *jsonbody.Fault) {
	if a.override == nil {
		return "", nil
	}
	known, err := a.override(o.Rule, rule.Numbers{Requests: o.Requests, Per: o.Per, Burst: o.Burst, Unlimited: o.Unlimited})
	if wrong, ok := errors.AsType[*rule.NumbersError](err); ok {
		return "", jsonbody.Bad(wrong.Field, "rule "+text.Quote(o.Rule)+" cannot have it: "+wrong.Problem, cmp.Or(wrong.Hint, "compare with the rule in GET /v1/limits"))
	}
	if !known {
		warning = "no rule is named " + text.Quote(o.Rule) + " on this node; the override has no effect until there is one"
	}
	return warning, nil
}

// edit makes one edit under the conditions of the headers. before is the record that may() has seen.
func (a *api) edit(w http.ResponseWriter, r *http.Request, change *records.Change, e records.Edit, whole bool, before records.Entry, there bool) (records.Outcome, bool) {
	if err := a.condition(r, change, &e, whole); err != nil {
		if header, ok := err.(*badHeader); ok { //nolint:errorlint // condition returns it as it is
			header.fault.Write(w)
		} else {
			a.failed(w, r, err, true)
		}
		return records.Outcome{}, false
	}
	s, is := e.Put.(records.Subject)
	if caller, known := access.CallerOf(r.Context()); (known && caller.Role < access.Write || is && !s.Next.From.IsZero()) && e.IfMatch == 0 {
		// What may() has seen must still be there: another may have written an override without an end. So must the
		// plan on which the next one follows.
		e.IfMatch, e.IfAbsent = before.Revision, !there
	}
	change.Edits = []records.Edit{e}
	return a.apply(w, r, change)
}

// may reports whether the caller may put a record in the place of another, or delete it (put nil). Support may not
// force a ban, and may not make or touch an override without an end, or one that lasts for longer than it may.
func (a *api) may(w http.ResponseWriter, r *http.Request, put records.Record, before records.Entry, force bool) bool {
	if force && !access.Allow(w, r, access.Write, "force") {
		return false
	}
	if o, ok := put.(records.Override); ok {
		if lasting := a.lasting(&o); lasting != "" && !access.Allow(w, r, access.Write, "an override "+lasting) {
			return false
		}
	}
	if o, ok := before.Record.(records.Override); ok {
		if lasting := a.lasting(&o); lasting != "" {
			return access.Allow(w, r, access.Write, "to change an override "+lasting)
		}
	}
	return true
}

// lasting returns how an override lasts for longer than support may give; "" if it does not.
func (a *api) lasting(o *records.Override) string {
	switch {
	case o.Until.IsZero():
		return "without until"
	case a.supportFor > 0 && o.Until.After(time.Now().Add(a.supportFor+time.Second)): // ends are rounded up
		return "for longer than " + text.FormatDuration(a.supportFor)
	}
	return ""
}

// putAnswer is what an answer to a put says beside the record.
type putAnswer struct {
	shown
	Repeated bool   `json:"repeated,omitempty"`
	Warning  string `json:"warning,omitempty"`
	created  bool
}

// answerPut answers with the record that is there now.
func (a *api) answerPut(w http.ResponseWriter, r *http.Request, c collection, id records.ID, answer putAnswer) {
	e, there, err := a.file.Get(id)
	switch {
	case err != nil:
		a.failed(w, r, err, false)
		return
	case !there: // another caller has deleted it meanwhile
		missing(id, c).Write(w)
		return
	}
	w.Header().Set("ETag", tag(e.Revision))
	status := http.StatusOK
	if answer.created {
		status = http.StatusCreated
	}
	answer.shown = show(e, time.Now())
	jsonbody.WriteJSON(w, status, answer)
}

func (a *api) remove(w http.ResponseWriter, r *http.Request, c collection, name string) {
	id := records.ID{Kind: c.kind, Name: name}
	before, there, err := a.file.Get(id)
	if err != nil {
		a.failed(w, r, err, false)
		return
	}
	if !there && r.Header.Get(idempotencyHeader) == "" { // a repeat must find the outcome of the first
		missing(id, c).Write(w)
		return
	}
	if !a.may(w, r, nil, before, false) {
		return
	}
	change, f := newChange(r, nil, "")
	if f != nil {
		f.Write(w)
		return
	}
	if outcome, ok := a.edit(w, r, &change, records.Edit{Delete: id}, false, before, there); ok {
		w.Header().Set("ETag", tag(outcome.Revision))
		w.WriteHeader(http.StatusNoContent)
	}
}
