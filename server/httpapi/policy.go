package httpapi

import (
	"strings"

	"stint"
	"stint/limiter/response"
	"stint/rule"
)

// policyAnswer is the policy of a rule, in the words of rule files.
type policyAnswer struct {
	Soft     string                  `json:"soft,omitempty"`
	Count    string                  `json:"count,omitempty"`
	Statuses []string                `json:"statuses,omitempty"`
	Elastic  *elasticAnswer          `json:"elastic,omitempty"`
	Penalty  *response.PenaltyAnswer `json:"penalty,omitempty"`
}

// elasticAnswer is the source of additional units of an elastic limit: another rule, or a load
// below some level.
type elasticAnswer struct {
	From  string `json:"from"`
	Gauge string `json:"gauge,omitempty"`
	Below string `json:"below,omitempty"`

	// Cap is the limit increased by upto.
	Cap limitAnswer `json:"cap"`
}

// policyOf returns the policy of a rule.
func policyOf(r *rule.Rule) policyAnswer {
	p := policyAnswer{Penalty: response.PenaltyOf(r)}
	if r.Soft > 0 {
		p.Soft = r.Soft.String()
	}
	if r.Answers != nil {
		p.Count, p.Statuses = "responses", strings.Fields(r.Answers.String())
	}
	if e := r.Elastic; e != nil {
		p.Elastic = &elasticAnswer{From: "load", Cap: describe(e.Cap)}
		if e.Pool != nil {
			p.Elastic.From = e.Pool.Name
		} else {
			p.Elastic.Gauge, p.Elastic.Below = e.Gauge, e.Below.String()
		}
	}
	return p
}

// lentAnswer is what a key may get above its own limit now.
type lentAnswer struct {
	// Room is the number of units.
	Room int64 `json:"room"`

	Cap  bucketAnswer  `json:"cap"`
	Pool *bucketAnswer `json:"pool,omitempty"`
}

// bucketAnswer is the state of a bucket that a limit borrows from.
type bucketAnswer struct {
	Limit     int64 `json:"limit"`
	Used      int64 `json:"used"`
	Remaining int64 `json:"remaining"`
}

// lentOf returns what the limit of a rule can borrow; nil if it does not borrow.
func lentOf(r *rule.Rule, sources []stint.Decision) *lentAnswer {
	if r.Elastic == nil || len(sources) == 0 {
		return nil
	}
	lent := &lentAnswer{Room: sources[0].Remaining, Cap: bucketOf(&sources[0])}
	for i := range sources {
		lent.Room = min(lent.Room, sources[i].Remaining)
	}
	if r.Elastic.Pool != nil && len(sources) > 1 {
		pool := bucketOf(&sources[1])
		lent.Pool = &pool
	}
	return lent
}

func bucketOf(d *stint.Decision) bucketAnswer {
	return bucketAnswer{Limit: d.Limit, Used: d.Limit - d.Remaining, Remaining: d.Remaining}
}
