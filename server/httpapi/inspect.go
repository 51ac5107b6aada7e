package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"stint"
	"stint/internal/jsonbody"
	"stint/limiter"
	"stint/limiter/response"
	"stint/rule"
	"stint/server/httpapi/limitjson"
)

// inspectAnswer is the answer to POST /v1/inspect.
type inspectAnswer struct {
	// Limits are all limits that apply, in the order of the descriptors.
	Limits []inspected `json:"limits"`

	// Unmatched are the indices, from 0, of the descriptors without a limit.
	Unmatched []int `json:"unmatched"`
}

// inspected is one limit and the state of its key.
type inspected struct {
	Descriptor int                 `json:"descriptor"`
	Rule       string              `json:"rule"`
	Shadow     bool                `json:"shadow"`
	Config     limitjson.Limit     `json:"config"`
	Override   *limitjson.Override `json:"override,omitempty"`
	limitjson.Policy
	Lent         *limitjson.Lent      `json:"lent,omitempty"`
	Leases       *limitjson.Leases    `json:"leases,omitempty"`
	Penalized    *response.KeyPenalty `json:"penalized,omitempty"`
	Loss         *limitjson.Loss      `json:"loss,omitempty"`
	Limit        *int64               `json:"limit"`
	Used         *int64               `json:"used"`
	Remaining    *int64               `json:"remaining"`
	ResetAfterMS int64                `json:"reset_after_ms"`
	Degraded     bool                 `json:"degraded"`
	response.Balances
}

// resetAnswer is the answer to POST /v1/reset.
type resetAnswer struct {
	Limits    []resetLimit `json:"limits"`
	Unmatched []int        `json:"unmatched"`
}

// resetLimit is one limit whose key was reset.
type resetLimit struct {
	Descriptor int    `json:"descriptor"`
	Rule       string `json:"rule"`
}

// inspect returns the state of the keys that a check would ask, and takes nothing.
func (a *admin) inspect(w http.ResponseWriter, r *http.Request) {
	k, f := a.read(r)
	if f == nil {
		k.question.req.Penalties = true
		f = a.ask(r, k)
	}
	if f != nil {
		f.Write(w)
		return
	}
	v := &k.verdict
	answer := inspectAnswer{Limits: make([]inspected, 0, len(v.Asked)), Unmatched: unmatched(v)}
	for i := range v.Asked {
		one := inspectedOf(&v.Asked[i], k.question.limit, v.Sources(i))
		one.Override = limitjson.OverrideOf(v, i)
		if d, asked := v.Penalty(i); asked && !d.Degraded {
			one.Penalized = response.PenaltyOfKey(&d)
		}
		if r := v.Asked[i].Rule; r != nil && a.options.Loss != nil {
			one.Loss = a.options.Loss(r)
		}
		if t := v.Take(i); t != nil && t.Coordination() == stint.Leased && a.options.Leases != nil {
			store, here := a.options.Leases(t)
			one.Leases = limitjson.LeasesOf(r.Context(), store, t, v.Asked[i].At, here)
		}
		if t := v.Take(i); response.HasBalances(t) && a.options.Usage != nil {
			u, err := a.options.Usage(r.Context(), t)
			if err != nil {
				noDecision(err).Write(w)
				return
			}
			one.Balances = response.BalancesOf(t, u.Book, v.Asked[i].At)
		}
		answer.Limits = append(answer.Limits, one)
	}
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// inspectedOf returns one limit. inline is the limit in the request, and sources are the decisions
// of the limits that this one borrows from.
func inspectedOf(asked *limiter.Asked, inline *stint.Limit, sources []stint.Decision) inspected {
	one := inspected{
		Descriptor:   asked.Descriptor,
		ResetAfterMS: response.Millis(asked.ResetAfter),
		Degraded:     asked.Degraded,
	}
	limit := inline
	if asked.Rule != nil {
		limit = asked.Rule.Limit
		one.Rule, one.Shadow = asked.Rule.Name, asked.Rule.Shadow
		one.Policy, one.Lent = limitjson.PolicyOf(asked.Rule), limitjson.LentOf(asked.Rule, sources)
	}
	one.Config = limitjson.LimitOf(limit)
	if asked.Limit != stint.NoLimit {
		used := asked.Limit - asked.Remaining
		one.Limit, one.Used, one.Remaining = &asked.Limit, &used, &asked.Remaining
	}
	return one
}

// reset resets the keys that a check would ask. It makes one call for each descriptor, because a
// call may reset a key only once and two descriptors may have the same key.
func (a *admin) reset(w http.ResponseWriter, r *http.Request) {
	k, f := a.read(r)
	if f != nil {
		f.Write(w)
		return
	}
	answer := resetAnswer{Limits: []resetLimit{}, Unmatched: []int{}}
	k.question.req.Op = stint.Reset
	all := k.question.req.Descriptors
	for i := range all {
		k.question.req.Descriptors = all[i : i+1]
		if f := a.noteReset(r, k); f != nil {
			failed := failedReset{resetAnswer: answer, Unknown: []resetLimit{}}
			failed.context(f, i, len(all)).Write(w)
			return
		}
		if err := k.question.put(r.Context(), a.limiter, &k.verdict); err != nil {
			failed := failedReset{resetAnswer: answer, Unknown: []resetLimit{}}
			if errors.Is(err, stint.ErrUnknown) {
				failed.Unknown = resetLimits(&k.verdict, i)
			}
			a.logReset(r, k, slices.Concat(answer.Limits, failed.Unknown))
			failed.fault(err, i, len(all)).Write(w)
			return
		}
		answer.Limits = append(answer.Limits, resetLimits(&k.verdict, i)...)
		if len(k.verdict.Asked) == 0 {
			answer.Unmatched = append(answer.Unmatched, i)
		}
	}
	a.logReset(r, k, answer.Limits)
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// noteReset calls OnReset for all limits of one descriptor.
func (a *admin) noteReset(r *http.Request, k *work) *jsonbody.Fault {
	if a.options.OnReset == nil {
		return nil
	}
	q := &k.question
	q.req.Op = stint.Ask
	defer func() { q.req.Op = stint.Reset }()
	if f := a.ask(r, k); f != nil {
		return f
	}
	key := q.req.Descriptors[0].Entries
	if q.limit != nil {
		key = []rule.Entry{{Key: "key", Value: q.key}}
	}
	for i := range k.verdict.Asked {
		one := inspectedOf(&k.verdict.Asked[i], q.limit, k.verdict.Sources(i))
		if f := a.options.OnReset(r, one.Rule, key, one); f != nil {
			return f
		}
	}
	return nil
}

// resetLimits returns the limits of a descriptor.
func resetLimits(v *limiter.Verdict, descriptor int) (limits []resetLimit) {
	for i := range v.Asked {
		one := resetLimit{Descriptor: descriptor}
		if r := v.Asked[i].Rule; r != nil {
			one.Rule = r.Name
		}
		limits = append(limits, one)
	}
	return limits
}

// logReset logs the rules whose keys were reset, or may have been. It does not log the keys, which
// may contain secrets.
func (a *admin) logReset(r *http.Request, k *work, limits []resetLimit) {
	if len(limits) == 0 {
		return
	}
	var names []string
	for _, one := range limits {
		names = append(names, one.Rule)
	}
	slices.Sort(names)
	a.options.Log.Info("limits reset for a key", "domain", k.question.req.Domain, "rules", slices.Compact(names), "peer", r.RemoteAddr)
}

// failedReset is the context of a failed reset: the limits that were reset before, and those of the
// failed descriptor, which may have been reset. No other keys were reset.
type failedReset struct {
	Field string `json:"field,omitempty"`
	resetAnswer
	Unknown []resetLimit `json:"unknown"`
}

// fault returns the fault of a reset that failed at one of several descriptors.
func (r *failedReset) fault(err error, at, of int) *jsonbody.Fault {
	f := noDecision(err)
	f.Hint = "try again; a key cannot be reset while its store is away"
	if len(r.Unknown) > 0 {
		f.Problem += ", and the key may have been reset or not"
	}
	return r.context(f, at, of)
}

// context adds to a fault which descriptors were reset.
func (r *failedReset) context(f *jsonbody.Fault, at, of int) *jsonbody.Fault {
	if of > 1 {
		f = f.In(fmt.Sprintf("descriptors[%d]", at))
		if at == 0 {
			f.Problem += "; none of the others was reset"
		} else {
			f.Problem += "; of the others only those before it were reset"
		}
	}
	r.Field, f.Context = f.Field, r
	return f
}

// read decodes the body of a check, without its costs and at_most.
func (a *admin) read(r *http.Request) (*work, *jsonbody.Fault) {
	if f := jsonbody.CheckType(r.Header.Get("Content-Type")); f != nil {
		return nil, f
	}
	body, err := jsonbody.Read(nil, r, a.options.MaxBody)
	if err != nil {
		return nil, jsonbody.ReadFault(err, a.options.MaxBody)
	}
	k := new(work)
	if f := k.question.decode(body, &a.known, oneCheck); f != nil {
		return nil, f
	}
	k.question.req.Op = stint.Ask
	for i := range k.question.req.Descriptors {
		k.question.req.Descriptors[i].Cost = 0
	}
	return k, nil
}

// ask sends the question to the limiter.
func (a *admin) ask(r *http.Request, k *work) *jsonbody.Fault {
	if err := k.question.put(r.Context(), a.limiter, &k.verdict); err != nil {
		return noDecision(err)
	}
	return nil
}

// unmatched returns the indices of the descriptors without a limit.
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
