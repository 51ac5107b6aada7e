package factsapi

import (
	"net/http"
	"time"

	"stint/facts"
	"stint/facts/advice"
	"stint/internal/jsonbody"
)

// AdviceAnswer is the answer of /v1/advice.
type AdviceAnswer struct {
	At    time.Time `json:"at"`
	Since time.Time `json:"since"` // of the facts

	// Advice has at most one element for each rule, in the order of the rules.
	Advice []advice.Advice `json:"advice"`
}

func (a *api) advice(w http.ResponseWriter, r *http.Request) {
	if _, f := jsonbody.Query(r, maxText); f != nil {
		f.Write(w)
		return
	}
	summary := a.facts.Summary(r.Context())
	jsonbody.WriteJSON(w, http.StatusOK, AdviceAnswer{
		At: summary.At, Since: summary.Since,
		Advice: advice.Of(advice.Input{
			Summary: &summary, Table: a.table(),
			History: func(of facts.Of) facts.History { return a.facts.History(of, facts.TenMinutes) },
		}),
	})
}
