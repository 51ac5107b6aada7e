package factsapi

import (
	"net/http"
	"time"

	"stint/facts"
	"stint/facts/advice"
	"stint/internal/jsonbody"
	"stint/rule"
	"stint/server/resource"
)

// AdvicePath is the path of [NewAdvice].
const AdvicePath = "/v1/advice"

// AdviceOptions are the settings of [NewAdvice].
type AdviceOptions struct {
	// Facts are what advice is made from. It must not be nil.
	Facts facts.Reader

	// Table returns the rules in force. It must not be nil.
	Table func() *rule.Table
}

// AdviceAnswer is the answer of [AdvicePath].
type AdviceAnswer struct {
	At    time.Time `json:"at"`
	Since time.Time `json:"since"` // of the facts

	// Advice has at most one element for each rule, in the order of the rules.
	Advice []advice.Advice `json:"advice"`
}

// NewAdvice returns the handler of [AdvicePath]:
//
//	GET /v1/advice    what is wrong with the rules, and the lines that would mend them
//
// The caller must restrict access to it, with the role read.
func NewAdvice(o AdviceOptions) http.Handler { return &adviser{o} }

type adviser struct{ AdviceOptions }

// ServeHTTP handles a request.
func (a *adviser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		resource.RefuseMethod(w, r, "GET", "HEAD")
		return
	}
	if _, f := resource.Query(r, maxText); f != nil {
		f.Write(w)
		return
	}
	summary := a.Facts.Summary(r.Context())
	jsonbody.WriteJSON(w, http.StatusOK, AdviceAnswer{
		At: summary.At, Since: summary.Since,
		Advice: advice.Of(advice.Input{
			Summary: &summary, Table: a.Table(),
			History: func(of facts.Of) facts.History { return a.Facts.History(of, facts.TenMinutes) },
		}),
	})
}
