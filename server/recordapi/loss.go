package recordapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/records"
	"stint/records/trail"
	"stint/server/access"
)

// LossPath is the path of losses of durable rules.
const LossPath = "/v1/accept-loss"

// Loss is that takes of a durable rule follow its failure policy, because counts of them were lost.
type Loss struct {
	Rule  string    `json:"rule"`  // DOMAIN/NAME
	Place string    `json:"place"` // where counts were lost: a server, or the state file
	Since time.Time `json:"since"` // when that was noticed
	Until time.Time `json:"until"` // when the period of the loss ends
}

// LossOptions are what the handler of [LossPath] needs.
type LossOptions struct {
	// Losses returns the losses in force.
	Losses func() []Loss

	// Rules returns the durable rules: DOMAIN/NAME by each name of theirs.
	Rules func() map[string]string

	// Accept accepts losses of a rule, "" for all.
	Accept func(ctx context.Context, rule string) error

	Records *records.File // gets an audit entry of each acceptance; nil: there is none
	Log     *slog.Logger
}

// NewLosses returns the handler of [LossPath]. The caller must restrict access to the handler, with an
// [access.Guard] for the role read.
func NewLosses(o LossOptions) http.Handler { return &losses{o} }

type losses struct{ LossOptions }

// ServeHTTP handles a request.
func (l *losses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != LossPath {
		unknown().Write(w)
		return
	}
	serve(w, r, method{"GET", access.Read, "this", l.list}, method{"POST", access.Write, "to accept a loss", l.accept})
}

// lossesAnswer is the answer to GET.
type lossesAnswer struct {
	Losses []Loss `json:"losses"`
}

// acceptedAnswer is the answer to POST: the losses that are no longer in force.
type acceptedAnswer struct {
	Accepted []Loss `json:"accepted"`
}

func (l *losses) list(w http.ResponseWriter, _ *http.Request) {
	jsonbody.WriteJSON(w, http.StatusOK, lossesAnswer{append([]Loss{}, l.Losses()...)})
}

// accept accepts the losses of a rule, or of all. An audit entry is written before.
func (l *losses) accept(w http.ResponseWriter, r *http.Request) {
	rule, f := l.ruleOf(r)
	if f != nil {
		f.Write(w)
		return
	}
	answer := acceptedAnswer{[]Loss{}}
	var rules []string
	for _, one := range l.Losses() {
		if rule == "" || rule == one.Rule {
			answer.Accepted, rules = append(answer.Accepted, one), append(rules, one.Rule)
		}
	}
	if len(rules) == 0 {
		jsonbody.WriteJSON(w, http.StatusOK, answer)
		return
	}
	if l.Records != nil {
		e := records.Event{Action: trail.AcceptLoss, Object: records.ID{Kind: records.Limits, Name: rule}}
		if rule == "" {
			e.Object.Name = "-"
		}
		if f := Note(l.Records, r, e, answer.Accepted, nil); f != nil {
			f.Problem = "no loss was accepted: " + f.Problem
			f.Write(w)
			return
		}
	}
	if err := l.Accept(r.Context(), rule); err != nil {
		l.Log.Error("loss not accepted", "rule", rule, "error", err)
		(&jsonbody.Fault{
			Status: http.StatusServiceUnavailable, Code: jsonbody.Unavailable,
			Problem: "the store did not take it: " + err.Error(), Hint: "ask again when the store answers; of several servers some may have taken it",
		}).Write(w)
		return
	}
	l.Log.Info("loss accepted", "rules", rules, "caller", By(r).Name, "peer", r.RemoteAddr)
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

// ruleOf returns the rule in the body of a request, as DOMAIN/NAME; "" for all.
func (l *losses) ruleOf(r *http.Request) (string, *jsonbody.Fault) {
	name, named, all := "", false, false
	_, f := readObject(r, []string{"rule", "all"}, func(s *jsonbody.Scanner, field string) (f *jsonbody.Fault) {
		if field == "all" {
			all, f = s.Truth()
			return f
		}
		text, f := s.Text()
		name, named = strings.Clone(text), true
		return f
	})
	if f != nil {
		return "", f
	}
	if all == named || named && name == "" {
		return "", jsonbody.Bad("rule", "a rule or all is expected, and not both", `write {"rule": "NAME"} or {"all": true}`)
	}
	rule, known := l.Rules()[name]
	if !all && !known {
		return "", jsonbody.NoSuch("no durable rule has the name "+text.Quote(name), "GET "+LossPath+" lists the rules with a loss")
	}
	return rule, nil
}
