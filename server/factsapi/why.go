package factsapi

import (
	"fmt"
	"net/http"
	"slices"

	"stint"
	"stint/facts"
	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/limiter"
	"stint/limiter/response"
	"stint/limiter/why"
	"stint/rule"
	"stint/server/httpapi/limitjson"
)

// WhyPath is the path of [NewWhy].
const WhyPath = "/v1/why"

// WhyOptions are the settings of [NewWhy].
type WhyOptions struct {
	// Limiter decides the requests that are explained. It must not be nil.
	Limiter *limiter.Limiter

	// Check decodes the body of a check by rules. It must not be nil.
	Check func(body []byte) (*limiter.Request, *jsonbody.Fault)

	// MaxBody is the most bytes of such a body.
	MaxBody int

	// Facts has the log of denials; nil: there is none.
	Facts facts.Reader

	// ID returns how a key is shown, see [facts.Facts.ID]; nil: keys are not shown.
	ID func(stint.Key) string
}

// NewWhy returns the handler of [WhyPath]:
//
//	POST /v1/why                  what a request would get now, and the smallest change that lets it pass
//	GET  /v1/why?request_id=ID    why a request was denied, if the log of denials has it
//
// It takes nothing from any limit. The caller must restrict access to it, with the role read.
func NewWhy(o WhyOptions) http.Handler { return &explainer{o} }

type explainer struct{ WhyOptions }

// ServeHTTP handles a request.
func (e *explainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		e.explain(w, r)
	case http.MethodGet, http.MethodHead:
		e.find(w, r)
	default:
		jsonbody.RefuseMethod(w, r, "GET", "HEAD", "POST")
	}
}

// WhyAnswer is the answer of POST /v1/why.
type WhyAnswer struct {
	Domain  string         `json:"domain"`
	Allowed bool           `json:"allowed"`
	Reason  limiter.Reason `json:"reason,omitempty"`

	// WaitMS is after how long the same request passes, if nobody else takes meanwhile: 0 if it passes
	// now, -1 if it never does.
	WaitMS int64 `json:"wait_ms"`

	Barred *WhyBarred `json:"barred,omitempty"`

	// Limits are all limits that apply, in the order of the descriptors; Unmatched are the indices, from
	// 0, of the descriptors without one.
	Limits    []WhyLimit `json:"limits"`
	Unmatched []int      `json:"unmatched"`

	// Smallest are the smallest changes that together let the request pass now.
	Smallest []WhyChange `json:"smallest"`
}

// WhyBarred is a ban or a list that decides before any limit.
type WhyBarred struct {
	List   string          `json:"list"`
	Exempt bool            `json:"exempt"`
	Ban    limiter.BanKind `json:"ban,omitempty"`
	File   string          `json:"file,omitempty"`
	Line   int             `json:"line,omitempty"`
	EndsMS int64           `json:"ends_ms"` // -1: it has no end
}

// WhyLimit is one limit, and the state of its key before and after the request.
type WhyLimit struct {
	Descriptor int                 `json:"descriptor"`
	Rule       string              `json:"rule"`
	Key        string              `json:"key,omitempty"` // as /v1/facts/keys shows it; empty: it has none, or facts are off
	Config     limitjson.Limit     `json:"config"`
	Override   *limitjson.Override `json:"override,omitempty"`
	limitjson.Policy

	// Coordination is how nodes agree on the key. Own: this process decided alone, from units that it
	// has or a denial that it remembers. Degraded: the store did not answer, and OnStoreFailure decided.
	Coordination   string `json:"coordination"`
	Own            bool   `json:"own"`
	Degraded       bool   `json:"degraded"`
	OnStoreFailure string `json:"on_store_failure"`

	Shadow bool `json:"shadow"`
	Quota  bool `json:"quota"`

	// Allowed is what the limit would decide. Denies: it denies the request; a limit in shadow mode
	// does not.
	Allowed   bool                 `json:"allowed"`
	Denies    bool                 `json:"denies"`
	Over      bool                 `json:"over"`
	Penalized *response.KeyPenalty `json:"penalized,omitempty"`

	Cost         uint32      `json:"cost"`
	Before       WhyState    `json:"before"`
	After        WhyState    `json:"after"`
	RetryAfterMS int64       `json:"retry_after_ms"`
	DelayMS      int64       `json:"delay_ms"`
	Changes      []WhyChange `json:"changes"`

	// Candidate is what the candidate of the limit would decide; nil: it tries none, or the store is away.
	Candidate *WhyCandidate `json:"candidate,omitempty"`
}

// WhyCandidate is the candidate of a limit, which denies nobody, and its state after the request if nothing
// else denies that.
type WhyCandidate struct {
	Config       limitjson.Limit `json:"config"`
	Allowed      bool            `json:"allowed"`
	After        WhyState        `json:"after"`
	RetryAfterMS int64           `json:"retry_after_ms"`
}

// WhyState is the state of a key. Of an unlimited limit the numbers are null.
type WhyState struct {
	Limit        *int64 `json:"limit"`
	Used         *int64 `json:"used"`
	Remaining    *int64 `json:"remaining"`
	ResetAfterMS int64  `json:"reset_after_ms"`
}

// WhyChange is one change.
type WhyChange struct {
	Kind why.Kind `json:"kind"`
	Rule string   `json:"rule,omitempty"`
	Text string   `json:"text"` // such as: requests 10 -> 11

	// From and To are the numbers of a limit or a cost.
	From uint64 `json:"from,omitempty"`
	To   uint64 `json:"to,omitempty"`

	// WaitMS is how long to wait.
	WaitMS int64 `json:"wait_ms,omitempty"`

	// Override are the numbers of an override of the rule for this client; null if no override
	// can make the change.
	Override *WhyNumbers `json:"override,omitempty"`
}

// WhyNumbers are the numbers of an override.
type WhyNumbers struct {
	Requests uint32 `json:"requests,omitempty"`
	Burst    uint32 `json:"burst,omitempty"`
}

// explain answers what a request would get.
func (e *explainer) explain(w http.ResponseWriter, r *http.Request) {
	if f := jsonbody.CheckType(r.Header.Get("Content-Type")); f != nil {
		f.Write(w)
		return
	}
	body, err := jsonbody.Read(nil, r, e.MaxBody)
	if err != nil {
		jsonbody.ReadFault(err, e.MaxBody).Write(w)
		return
	}
	req, f := e.Check(body)
	if f != nil {
		f.Write(w)
		return
	}
	found, err := why.Explain(r.Context(), e.Limiter, req)
	if err != nil {
		(&jsonbody.Fault{
			Status: http.StatusServiceUnavailable, Code: jsonbody.NoDecision,
			Problem: "the store could not decide: " + err.Error(), Hint: "try again, and see GET /readyz",
		}).Write(w)
		return
	}
	jsonbody.WriteJSON(w, http.StatusOK, answerOf(found, e.ID))
}

// answerOf returns the answer about a request.
func answerOf(e *why.Explanation, id func(stint.Key) string) *WhyAnswer {
	a := &WhyAnswer{
		Domain: e.Domain, Allowed: e.Passes(), WaitMS: response.Millis(e.Wait),
		Limits: []WhyLimit{}, Unmatched: []int{}, Smallest: changesOf(e, e.Smallest),
	}
	switch {
	case a.Allowed:
	case e.Kind != "":
		a.Reason = limiter.ReasonBanned
	case e.Barred != nil:
		a.Reason = limiter.ReasonDenied
	default:
		a.Reason = e.Reason()
	}
	if b := e.Barred; b != nil {
		a.Barred = &WhyBarred{List: b.Name, Exempt: b.Exempt, Ban: e.Kind, File: b.File, Line: b.Line, EndsMS: response.Millis(e.Ends)}
	}
	for i := range e.Asked {
		a.Limits = append(a.Limits, limitOf(e, i, id))
	}
	for i := range e.Results {
		if e.Results[i].Unmatched {
			a.Unmatched = append(a.Unmatched, i)
		}
	}
	return a
}

// limitOf returns one limit, with its key as id shows it.
func limitOf(e *why.Explanation, i int, id func(stint.Key) string) WhyLimit {
	asked := &e.Asked[i]
	r := asked.Rule
	one := WhyLimit{
		Descriptor: asked.Descriptor, Rule: r.Name, Config: limitjson.LimitOf(r.Limit), Override: limitjson.OverrideOf(&e.Verdict, i), Policy: limitjson.PolicyOf(r),
		Coordination: stint.Strict.String(), Own: asked.Own, Degraded: asked.Degraded, OnStoreFailure: r.OnStoreFailure.String(),
		Shadow: r.Shadow, Quota: r.Quota, Allowed: asked.Allowed, Denies: e.Denies(i), Over: asked.Over,
		Cost: asked.Cost, Before: stateOf(&e.Before[i]), After: stateOf(&asked.Decision),
		RetryAfterMS: response.Millis(asked.RetryAfter), DelayMS: response.Millis(asked.Delay), Changes: changesOf(e, e.Limits[i]),
	}
	if t := e.Take(i); t != nil {
		one.Coordination = t.Coordination().String()
		if id != nil {
			one.Key = id(t.Key)
		}
	}
	for k := range e.Candidates {
		if c := &e.Candidates[k]; c.Of == i && !c.Degraded {
			one.Candidate = &WhyCandidate{limitjson.LimitOf(c.Rule.Limit), c.Allowed, stateOf(&c.Decision), response.Millis(c.RetryAfter)}
		}
	}
	if d, known := e.Penalty(i); known && !d.Degraded {
		one.Penalized = response.PenaltyOfKey(&d)
	}
	return one
}

func stateOf(d *stint.Decision) WhyState {
	if d.Limit == stint.NoLimit {
		return WhyState{}
	}
	limit, used, remaining := d.Limit, d.Limit-d.Remaining, d.Remaining
	return WhyState{Limit: &limit, Used: &used, Remaining: &remaining, ResetAfterMS: response.Millis(d.ResetAfter)}
}

func changesOf(e *why.Explanation, changes []why.Change) []WhyChange {
	shown := make([]WhyChange, 0, len(changes))
	for i := range changes {
		c := &changes[i]
		one := WhyChange{Kind: c.Kind, From: c.From, To: c.To}
		var r *rule.Rule
		if c.Limit >= 0 {
			r = e.Asked[c.Limit].Rule
			one.Rule = r.Name
		}
		if c.Kind == why.Wait {
			one.WaitMS = response.Millis(c.After)
		}
		if n := c.Numbers; n != (rule.Numbers{}) {
			one.Override = &WhyNumbers{n.Requests, n.Burst}
		}
		one.Text = textOf(c, r, e.Barred)
		shown = append(shown, one)
	}
	return shown
}

// textOf describes a change, which is about a rule or a list.
func textOf(c *why.Change, r *rule.Rule, barred *rule.Listed) string {
	switch c.Kind {
	case why.Wait:
		return "wait " + c.After.String()
	case why.Unban:
		return "end the ban, which stint bans shows"
	case why.Unlist:
		return fmt.Sprintf("take the client out of the list %s (%s:%d)", barred.Name, barred.File, barred.Line)
	case why.Reset:
		return "reset the key, which ends the step of its penalty"
	case why.Failure:
		return "on_store_failure " + r.OnStoreFailure.String() + " -> allow, or a store that answers"
	case why.MaxWait, why.MinInterval:
		return fmt.Sprintf("%s %v -> %v", c.Kind, c.Before, c.After)
	}
	return fmt.Sprintf("%s %d -> %d", c.Kind, c.From, c.To)
}

// foundAnswer is the answer of GET /v1/why.
type foundAnswer struct {
	RequestID string        `json:"request_id"`
	Denials   []foundDenial `json:"denials"`
}

// foundDenial is a line of the log of denials, and the rule as it is now.
type foundDenial struct {
	facts.Denial
	Config *limitjson.Limit `json:"config,omitempty"`
}

// find answers why a request was denied.
func (e *explainer) find(w http.ResponseWriter, r *http.Request) {
	query, f := jsonbody.Query(r, maxText, "request_id")
	if f != nil {
		f.Write(w)
		return
	}
	id := query.Get("request_id")
	if id == "" {
		jsonbody.Bad("request_id", "missing", "give the id of a request, or send the body of a check with POST").Write(w)
		return
	}
	answer := foundAnswer{RequestID: id, Denials: []foundDenial{}}
	if e.Facts != nil {
		for _, d := range e.Facts.Denials(maxDenials, func(d *facts.Denial) bool { return d.RequestID == id }) {
			answer.Denials = append(answer.Denials, foundDenial{d, e.limitOf(d.Domain, d.Rule)})
		}
	}
	if len(answer.Denials) == 0 {
		jsonbody.NoSuch("the log of denials has no request "+text.Quote(id), "the log is a sample; ask by the descriptor of the client with POST").Write(w)
		return
	}
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// limitOf returns the numbers of a rule; nil if there is none of that name any more.
func (e *explainer) limitOf(domain, name string) *limitjson.Limit {
	table := e.Limiter.Table()
	if table == nil {
		return nil
	}
	rules := table.Rules()
	i := slices.IndexFunc(rules, func(r *rule.Rule) bool { return r.Domain == domain && r.Name == name })
	if i < 0 {
		return nil
	}
	limit := limitjson.LimitOf(rules[i].Limit)
	return &limit
}
