package factsapi

import (
	"context"
	"net/http"
	"runtime/pprof"
	"strconv"
	"time"

	"stint/facts"
	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/rule"
)

// CostLabel is the label of CPU profiles whose value is the path of a request.
const CostLabel = "stint_facts"

// Paths are the paths of the API.
var Paths = []string{"/v1/facts", "/v1/live", "/v1/advice"}

// The numbers of elements of an answer.
const (
	defaultKeys    = 20
	maxKeys        = 100
	defaultDenials = 100
	maxDenials     = 1000
)

// maxText is the most bytes of a query parameter.
const maxText = 2048

// Options are the settings of the API.
type Options struct {
	// Facts are served. It must not be nil.
	Facts facts.Reader

	// Counts returns a summary of which /v1/live shows the nodes and the counts of the rules. Nil: Facts.Summary.
	Counts func(context.Context) facts.Summary

	// Table returns the rules in force, which advice is about. It must not be nil.
	Table func() *rule.Table

	// Every is the time between two frames of /v1/live. 0: a second.
	Every time.Duration

	// Done ends the streams of /v1/live when it is closed, so that a server can drain. Nil: clients
	// end them.
	Done <-chan struct{}
}

// Off answers the requests of a service without facts.
func Off(w http.ResponseWriter, _ *http.Request) {
	jsonbody.NoSuch("this service keeps no facts", "start it without --facts-off").Write(w)
}

// api handles the requests.
type api struct {
	facts facts.Reader
	table func() *rule.Table
	live  *hub
}

// New returns the handler of [Paths] and all paths below:
//
//	GET /v1/facts           the summary of all nodes, a facts.Summary
//	GET /v1/facts/keys      the busiest keys of a rule: domain, rule, by (denied, allowed, over), n; or id
//	GET /v1/facts/history   the history of a rule: domain, rule, step (1m, 10m); a facts.History
//	GET /v1/facts/denials   the newest lines of the log of denials: domain, rule, key, request, n
//	GET /v1/live            server-sent events: a Frame a second
//	GET /v1/advice          what is wrong with the rules, and the lines that would mend them
//
// The caller must restrict access to it, with the role read.
func New(o Options) http.Handler {
	if o.Every <= 0 {
		o.Every = time.Second
	}
	return &api{facts: o.Facts, table: o.Table, live: newHub(o)}
}

// ServeHTTP handles a request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handlers := map[string]http.HandlerFunc{
		"/v1/facts":         a.summary,
		"/v1/facts/keys":    a.keys,
		"/v1/facts/history": a.history,
		"/v1/facts/denials": a.denials,
		"/v1/live":          a.live.serve,
		"/v1/advice":        a.advice,
	}
	handler := handlers[r.URL.Path]
	switch {
	case handler == nil:
		jsonbody.NoSuch("no facts have the path "+text.Quote(r.URL.Path), "see GET /v1/facts, and keys, history and denials below it").Write(w)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		jsonbody.RefuseMethod(w, r, "GET", "HEAD")
	default:
		// The label also marks the goroutine that builds frames, so that a profile shows what viewers cost.
		pprof.Do(r.Context(), pprof.Labels(CostLabel, r.URL.Path), func(context.Context) { handler(w, r) })
	}
}

func (a *api) summary(w http.ResponseWriter, r *http.Request) {
	if _, f := jsonbody.Query(r, maxText); f != nil {
		f.Write(w)
		return
	}
	jsonbody.WriteJSON(w, http.StatusOK, a.facts.Summary(r.Context()))
}

// keysAnswer is the answer of /v1/facts/keys.
type keysAnswer struct {
	Keys []facts.Key `json:"keys"`
}

func (a *api) keys(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxText, "domain", "rule", "by", "n", "id")
	if f != nil {
		f.Write(w)
		return
	}
	if query.Has("id") {
		jsonbody.WriteJSON(w, http.StatusOK, keysAnswer{list(a.facts.Find(r.Context(), query.Get("id")))})
		return
	}
	n, f := number(query.Get("n"), "n", defaultKeys, maxKeys)
	if f != nil {
		f.Write(w)
		return
	}
	by := facts.By(query.Get("by"))
	switch by {
	case "":
		by = facts.ByDenied
	case facts.ByDenied, facts.ByAllowed, facts.ByOver:
	default:
		jsonbody.Bad("by", text.Quote(string(by))+" is not a count of keys", "write denied, allowed or over").Write(w)
		return
	}
	of := facts.Of{Domain: query.Get("domain"), Rule: query.Get("rule")}
	jsonbody.WriteJSON(w, http.StatusOK, keysAnswer{list(a.facts.Top(r.Context(), of, by, n))})
}

func (a *api) history(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxText, "domain", "rule", "step")
	if f != nil {
		f.Write(w)
		return
	}
	step := facts.Minute
	switch query.Get("step") {
	case "", "1m":
	case "10m":
		step = facts.TenMinutes
	default:
		jsonbody.Bad("step", text.Quote(query.Get("step"))+" is not a step of the history", "write 1m for the last 24 hours, or 10m for the last 7 days").Write(w)
		return
	}
	h := a.facts.History(facts.Of{Domain: query.Get("domain"), Rule: query.Get("rule")}, step)
	h.Points, h.Marks = list(h.Points), list(h.Marks)
	jsonbody.WriteJSON(w, http.StatusOK, h)
}

// denialsAnswer is the answer of /v1/facts/denials.
type denialsAnswer struct {
	Denials []facts.Denial `json:"denials"`
}

func (a *api) denials(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxText, "domain", "rule", "key", "request", "n")
	if f != nil {
		f.Write(w)
		return
	}
	n, f := number(query.Get("n"), "n", defaultDenials, maxDenials)
	if f != nil {
		f.Write(w)
		return
	}
	matches := func(name, value string) bool { return !query.Has(name) || query.Get(name) == value }
	found := a.facts.Denials(n, func(d *facts.Denial) bool {
		return matches("domain", d.Domain) && matches("rule", d.Rule) && matches("key", d.Key) && matches("request", d.RequestID)
	})
	jsonbody.WriteJSON(w, http.StatusOK, denialsAnswer{list(found)})
}

// number reads a query parameter: a whole number from 1 to most.
func number(value, name string, byDefault, most int) (int, *jsonbody.Fault) {
	if value == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return 0, jsonbody.Bad(name, text.Quote(value)+" is not a valid number", "write a whole number from 1 to "+strconv.Itoa(most))
	}
	return n, nil
}

// list returns a list that JSON does not show as null.
func list[T any](of []T) []T {
	if of == nil {
		return []T{}
	}
	return of
}
