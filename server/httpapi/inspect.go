package httpapi

import (
	"net/http"
	"slices"

	"stint"
	"stint/internal/envelope"
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
	Descriptor int         `json:"descriptor"`
	Rule       string      `json:"rule"`
	Shadow     bool        `json:"shadow"`
	Config     limitAnswer `json:"config"`
	policyAnswer
	Lent         *lentAnswer `json:"lent,omitempty"`
	Leases       any         `json:"leases,omitempty"`
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
	k, f := a.read(r)
	if f == nil {
		f = a.ask(r, k)
	}
	if f != nil {
		f.Write(w)
		return
	}
	v := &k.verdict
	answer := inspectAnswer{Limits: make([]inspected, 0, len(v.Asked)), Unmatched: unmatched(v)}
	for i := range v.Asked {
		one := inspectedOf(&v.Asked[i], k.question.limit, v.Leaned(i))
		if t := v.Take(i); t != nil && t.Coordination == stint.Leased && a.options.Leases != nil {
			one.Leases = a.options.Leases(r.Context(), t, v.Asked[i].At)
		}
		answer.Limits = append(answer.Limits, one)
	}
	envelope.WriteJSON(w, http.StatusOK, answer)
}

// inspectedOf returns one limit; inline is the one that the request brought, and
// leaned what the limit leans on.
func inspectedOf(asked *limiter.Asked, inline *stint.Limit, leaned []stint.Decision) inspected {
	one := inspected{
		Descriptor:   asked.Descriptor,
		ResetAfterMS: millis(asked.ResetAfter),
		Degraded:     asked.Degraded,
	}
	limit := inline
	if asked.Rule != nil {
		limit = asked.Rule.Limit
		one.Rule, one.Shadow = asked.Rule.Name, asked.Rule.Shadow
		one.policyAnswer, one.Lent = policyOf(asked.Rule), lentOf(asked.Rule, leaned)
	}
	one.Config = describe(limit)
	if asked.Limit != stint.NoLimit {
		used := asked.Limit - asked.Remaining
		one.Limit, one.Used, one.Remaining = &asked.Limit, &used, &asked.Remaining
	}
	return one
}

// reset forgets the keys that a check would ask. Each descriptor is a call of its
// own, because a key that two of them lead to can be forgotten only once in a call.
func (a *admin) reset(w http.ResponseWriter, r *http.Request) {
	k, f := a.read(r)
	if f != nil {
		f.Write(w)
		return
	}
	answer := resetAnswer{Limits: []resetLimit{}, Unmatched: []int{}}
	k.question.req.Op = stint.Reset
	all := k.question.req.Descriptors
	var names []string
	for i := range all {
		k.question.req.Descriptors = all[i : i+1]
		if f := a.ask(r, k); f != nil {
			if f.Status == http.StatusServiceUnavailable {
				f.Hint = "try again; a key cannot be reset while its store is away"
			}
			f.Write(w)
			return
		}
		for j := range k.verdict.Asked {
			one := resetLimit{Descriptor: i}
			if r := k.verdict.Asked[j].Rule; r != nil {
				one.Rule = r.Name
			}
			names = append(names, one.Rule)
			answer.Limits = append(answer.Limits, one)
		}
		if len(k.verdict.Asked) == 0 {
			answer.Unmatched = append(answer.Unmatched, i)
		}
	}
	slices.Sort(names)
	// The values stay out of the log: they may be secrets.
	a.options.Log.Info("limits reset for a key", "domain", k.question.req.Domain, "rules", slices.Compact(names), "from", r.RemoteAddr)
	envelope.WriteJSON(w, http.StatusOK, answer)
}

// read reads the body of a check, and puts its costs aside.
func (a *admin) read(r *http.Request) (*work, *envelope.Fault) {
	if f := checkType(r.Header.Get("Content-Type")); f != nil {
		return nil, f
	}
	body, err := readBody(nil, r, a.options.MaxBody)
	if err != nil {
		return nil, unreadable(err, a.options.MaxBody)
	}
	k := new(work)
	if f := k.question.decode(body, &a.known); f != nil {
		return nil, f
	}
	for i := range k.question.req.Descriptors {
		k.question.req.Descriptors[i].Cost = 0
	}
	return k, nil
}

// ask puts the question.
func (a *admin) ask(r *http.Request, k *work) *envelope.Fault {
	if err := k.question.put(r.Context(), a.limiter, &k.verdict); err != nil {
		return noDecision(err)
	}
	return nil
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
