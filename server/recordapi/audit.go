package recordapi

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/records"
	"stint/records/trail"
	"stint/records/transfer"
	"stint/rule"
	"stint/server/access"
)

// auditAnswer is a page of the audit trail, newest first.
type auditAnswer struct {
	Entries []trail.Entry `json:"entries"`

	// Next is the value of the parameter before for the next page; null after the last page.
	Next *string `json:"next"`

	Head headAnswer `json:"head"`
}

// audit handles the paths of the audit trail.
func (a *api) audit(w http.ResponseWriter, r *http.Request, rest string, more bool) {
	switch {
	case !more:
		serve(w, r, method{"GET", access.Read, "this", a.history})
	case rest == "verify":
		serve(w, r, method{"GET", access.Read, "this", a.verify})
	default:
		unknown().Write(w)
	}
}

// auditFilter says which entries are wanted.
type auditFilter struct {
	query url.Values
	since time.Time
}

func (a *api) history(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxQuery, "before", "limit", "subject", "rule", "who", "since")
	filter := auditFilter{query: query}
	limit, before := 0, uint64(0)
	answer := auditAnswer{Entries: []trail.Entry{}}
	answer.Head.Number, answer.Head.Hash = a.file.Head()
	if f == nil {
		limit, f = jsonbody.PageLimit(query, "entries")
	}
	if f == nil {
		before, f = beforeOf(query, answer.Head.Number+1)
	}
	if f == nil {
		f = filter.readSince(time.Now())
	}
	if f != nil {
		f.Write(w)
		return
	}
	next, err := a.past(&answer, before, limit, &filter)
	if err != nil {
		a.failed(w, r, err, false)
		return
	}
	if next > 1 {
		number := strconv.FormatUint(next, 10)
		answer.Next = &number
	}
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// beforeOf returns the number of the entry before which a page begins.
func beforeOf(query url.Values, end uint64) (uint64, *jsonbody.Fault) {
	if !query.Has("before") {
		return end, nil
	}
	n, err := strconv.ParseUint(query.Get("before"), 10, 64)
	if err != nil || n == 0 {
		return 0, jsonbody.Bad("before", text.Quote(query.Get("before"))+" is no number of an entry", "send next of the page before")
	}
	return min(n, end), nil
}

// readSince reads the parameter since: a time, or the length of time until now.
func (f *auditFilter) readSince(now time.Time) *jsonbody.Fault {
	written := f.query.Get("since")
	if !f.query.Has("since") {
		return nil
	}
	if at, err := time.Parse(time.RFC3339, written); err == nil {
		f.since = at
		return nil
	}
	ago, err := text.ParseDuration(written)
	if err != nil {
		return jsonbody.Bad("since", text.Quote(written)+" is neither a time nor a length of time", "write it such as 2026-01-31T12:00:00Z, 1h, 7d or 2w")
	}
	f.since = now.Add(-ago)
	return nil
}

// past fills a page with the entries before a number, newest first. It returns the number before
// which the next page begins; at most 1 for none.
func (a *api) past(answer *auditAnswer, before uint64, limit int, filter *auditFilter) (uint64, error) {
	for range maxScan / step {
		from := uint64(1)
		if before > step {
			from = before - step
		}
		var part []trail.Entry
		for e, err := range a.file.Trail(from) {
			if err != nil {
				return 0, err
			}
			if e.Number >= before {
				break
			}
			part = append(part, e)
		}
		for _, e := range slices.Backward(part) {
			switch {
			case e.Time.Before(filter.since):
				return 0, nil
			case !filter.fits(&e):
			case len(answer.Entries) == limit:
				return e.Number + 1, nil
			default:
				answer.Entries = append(answer.Entries, e)
			}
		}
		if len(part) == 0 || from == 1 {
			return 0, nil
		}
		before = part[0].Number
	}
	return before, nil
}

// fits reports whether an entry is wanted.
func (f *auditFilter) fits(e *trail.Entry) bool {
	subject, who := f.query.Get("subject"), f.query.Get("who")
	return (!f.query.Has("subject") || e.About(subject) || e.Object == subject || targetOf(e) == subject) &&
		(!f.query.Has("rule") || ruleOf(e) == f.query.Get("rule")) &&
		(!f.query.Has("who") || e.Actor == who)
}

// targetOf returns the subject, pattern, network or limit that an entry is about.
func targetOf(e *trail.Entry) string {
	target, _ := transfer.CutOverride(e.Object)
	return target
}

// ruleOf returns the rule that an entry is about; "" for none.
func ruleOf(e *trail.Entry) string {
	switch records.Kind(e.Kind) {
	case records.Overrides:
		_, rule := transfer.CutOverride(e.Object)
		return rule
	case records.Limits:
		rule, _, _ := strings.Cut(e.Object, " ")
		return rule
	case Rules:
		return e.Object
	}
	return ""
}

// Rules is the kind of rules per API in the audit trail.
const Rules records.Kind = "rule"

// Note writes an event of a request to the audit trail: what changes no record, such as a reset.
// before and after are written as JSON; nil if unknown.
func Note(f *records.File, r *http.Request, e records.Event, before, after any) *jsonbody.Fault {
	change, fault := newChange(r, nil, "")
	if fault != nil {
		return fault
	}
	e.By, e.Why = change.By, change.Why
	for _, side := range []struct {
		value any
		to    *json.RawMessage
	}{{before, &e.Before}, {after, &e.After}} {
		if side.value == nil {
			continue
		}
		var err error
		if *side.to, err = json.Marshal(side.value); err != nil {
			return faultOf(err, false)
		}
	}
	if err := f.Note(r.Context(), e, time.Now()); err != nil {
		fault := faultOf(err, false)
		fault.Problem = "the audit trail did not take an entry: " + fault.Where()
		fault.Field = ""
		return fault
	}
	return nil
}

// Reset is the reset of a limit for a key.
type Reset struct {
	Rule   string // "" for a limit in the request
	Key    []rule.Entry
	Before any // the state of the limit
}

// Event returns the reset as an event for the audit trail, without who made it, and without the state
// before it.
func (r Reset) Event() records.Event {
	e := records.Event{Action: trail.Reset}
	for _, entry := range r.Key {
		e.Subjects = append(e.Subjects, entry.Key+"="+entry.Value)
	}
	e.Object = records.ID{Kind: records.Limits, Name: cmp.Or(r.Rule, "-") + " " + strings.Join(e.Subjects, " ")}
	return e
}

// NoteReset writes a reset to the audit trail, before it is made.
func NoteReset(f *records.File, r *http.Request, reset Reset) *jsonbody.Fault {
	fault := Note(f, r, reset.Event(), reset.Before, nil)
	if fault != nil {
		fault.Problem = "nothing was reset: " + fault.Problem
	}
	return fault
}

// RuleChange is the change of a rule per API that is not among the records.
type RuleChange struct {
	Action, ID    string
	Before, After any
}

// NoteRule writes the change of a rule per API to the audit trail, after it was made.
func NoteRule(f *records.File, log *slog.Logger, r *http.Request, c RuleChange) *jsonbody.Fault {
	e := records.Event{Action: trail.Action(c.Action), Object: records.ID{Kind: Rules, Name: c.ID}}
	fault := Note(f, r, e, c.Before, c.After)
	if fault != nil {
		log.Error("audit entry lost", "action", c.Action, "rule", c.ID, "error", fault.Problem)
		fault.Problem, fault.Hint = "the rule was changed, but "+fault.Problem, "mend what the problem names, and make the change again"
	}
	return fault
}
