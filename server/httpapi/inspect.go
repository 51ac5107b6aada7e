package httpapi

import (
	"net/http"

	"stint"
	"stint/limiter"
)

// inspectAnswer is the answer to POST /v1/inspect.
type inspectAnswer struct {
	// Limits are all that apply, in the order of the descriptors.
	Limits []inspected `json:"limits"`

	// Unmatched are the descriptors, from 0, that no limit applies to.
	Unmatched []int `json:"unmatched"`
}

// inspected is one limit and the state of the key under it.
type inspected struct {
	Descriptor   int         `json:"descriptor"`
	Rule         string      `json:"rule"`
	Shadow       bool        `json:"shadow"`
	Config       limitAnswer `json:"config"`
	Limit        *int64      `json:"limit"`
	Used         *int64      `json:"used"`
	Remaining    *int64      `json:"remaining"`
	ResetAfterMS int64       `json:"reset_after_ms"`
	Degraded     bool        `json:"degraded"`
}

// resetAnswer is the answer to POST /v1/reset.
type resetAnswer struct {
	Limits    []resetLimit `json:"limits"`
	Unmatched []int        `json:"unmatched"`
}

// resetLimit is one limit whose key was forgotten.
type resetLimit struct {
	Descriptor int    `json:"descriptor"`
	Rule       string `json:"rule"`
}

// inspect shows the state of the keys that a check would ask, and takes nothing.
func (a *admin) inspect(w http.ResponseWriter, r *http.Request) {
	work, f := a.ask(w, r, stint.Ask)
	if f != nil {
		writeFault(w, f)
		return
	}
	v := &work.verdict
	answer := inspectAnswer{Limits: make([]inspected, 0, len(v.Asked)), Unmatched: unmatched(v)}
	for i := range v.Asked {
		answer.Limits = append(answer.Limits, inspectedOf(&v.Asked[i], work.question.limit))
	}
	writeJSON(w, http.StatusOK, answer)
}

// inspectedOf returns one limit; inline is the one that the request brought.
func inspectedOf(asked *limiter.Asked, inline *stint.Limit) inspected {
	one := inspected{
		Descriptor:   asked.Descriptor,
		ResetAfterMS: millis(asked.ResetAfter),
		Degraded:     asked.Degraded,
	}
	limit := inline
	if asked.Rule != nil {
		limit = asked.Rule.Limit
		one.Rule, one.Shadow = asked.Rule.Name, asked.Rule.Shadow
	}
	one.Config = describe(limit)
	if asked.Limit != stint.NoLimit {
		used := asked.Limit - asked.Remaining
		one.Limit, one.Used, one.Remaining = &asked.Limit, &used, &asked.Remaining
	}
	return one
}

// reset forgets the keys that a check would ask.
func (a *admin) reset(w http.ResponseWriter, r *http.Request) {
	work, f := a.ask(w, r, stint.Reset)
	if f != nil {
		writeFault(w, f)
		return
	}
	v := &work.verdict
	answer := resetAnswer{Limits: make([]resetLimit, 0, len(v.Asked)), Unmatched: unmatched(v)}
	var names []string
	for i := range v.Asked {
		one := resetLimit{Descriptor: v.Asked[i].Descriptor}
		if r := v.Asked[i].Rule; r != nil {
			one.Rule = r.Name
		}
		names = append(names, one.Rule)
		answer.Limits = append(answer.Limits, one)
	}
	// The values stay out of the log: they may be secrets.
	a.options.Log.Info("limits reset for a key", "domain", v.Domain, "rules", sortedRules(names), "from", r.RemoteAddr)
	writeJSON(w, http.StatusOK, answer)
}

// ask reads the body of a check and does op to every limit that applies, at no
// cost.
func (a *admin) ask(w http.ResponseWriter, r *http.Request, op stint.Op) (*work, *fault) {
	if f := checkType(r.Header.Get("Content-Type")); f != nil {
		return nil, f
	}
	body, err := readBody(nil, r, a.options.MaxBody)
	if err != nil {
		return nil, unreadable(err, a.options.MaxBody)
	}
	k := new(work)
	if f := k.question.decode(body, &a.limitBy); f != nil {
		return nil, f
	}
	k.question.req.Op = op
	for i := range k.question.req.Descriptors {
		k.question.req.Descriptors[i].Cost = 0
	}
	if err := k.question.put(r.Context(), a.limiter, &k.verdict); err != nil {
		return nil, noDecision(err)
	}
	return k, nil
}

// unmatched lists the descriptors that no limit was asked for.
func unmatched(v *limiter.Verdict) []int {
	matched := make([]bool, len(v.Results))
	for i := range v.Asked {
		matched[v.Asked[i].Descriptor] = true
	}
	list := []int{}
	for i, m := range matched {
		if !m {
			list = append(list, i)
		}
	}
	return list
}
