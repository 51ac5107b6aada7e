package limitjson

import (
	"strings"

	"stint"
	"stint/limiter/response"
	"stint/rule"
)

// Policy is the policy of a rule, in the words of rule files.
type Policy struct {
	// Plan is the plan whose limit this is; where no client is asked about, the default plan, or the first
	// one by name that has the limit. Plans are all that have it.
	Plan  string   `json:"plan,omitempty"`
	Plans []string `json:"plans,omitempty"`

	Soft     string   `json:"soft,omitempty"`
	Count    string   `json:"count,omitempty"`
	Statuses []string `json:"statuses,omitempty"`
	Elastic  *Elastic `json:"elastic,omitempty"`

	Penalty *response.PenaltyAnswer `json:"penalty,omitempty"`

	// Candidate is the limit that the rule tries without effect.
	Candidate *Limit `json:"candidate,omitempty"`
}

// Elastic is the source of additional units of an elastic limit: another rule, or a load
// below some level.
type Elastic struct {
	From  string `json:"from"`
	Gauge string `json:"gauge,omitempty"`
	Below string `json:"below,omitempty"`

	// Cap is the limit increased by upto.
	Cap Limit `json:"cap"`
}

// PolicyOf returns the policy of a rule.
func PolicyOf(r *rule.Rule) Policy {
	p := Policy{Penalty: response.PenaltyOf(r), Plan: r.OfPlan}
	if r.Plan != nil {
		p.Plans = r.Plan.Plans()
	}
	if r.Soft > 0 {
		p.Soft = r.Soft.String()
	}
	if r.Candidate != nil {
		tried := LimitOf(r.Candidate.Limit)
		p.Candidate = &tried
	}
	if r.Answers != nil {
		p.Count, p.Statuses = "responses", strings.Fields(r.Answers.String())
	}
	if e := r.Elastic; e != nil {
		p.Elastic = &Elastic{From: "load", Cap: LimitOf(e.Cap)}
		if e.Pool != nil {
			p.Elastic.From = e.Pool.Name
		} else {
			p.Elastic.Gauge, p.Elastic.Below = e.Gauge, e.Below.String()
		}
	}
	return p
}

// Lent is what a key may get above its own limit now.
type Lent struct {
	// Room is the number of units.
	Room int64 `json:"room"`

	Cap  Bucket  `json:"cap"`
	Pool *Bucket `json:"pool,omitempty"`
}

// Bucket is the state of a bucket that a limit borrows from.
type Bucket struct {
	Limit     int64 `json:"limit"`
	Used      int64 `json:"used"`
	Remaining int64 `json:"remaining"`
}

// LentOf returns what the limit of a rule can borrow; nil if it does not borrow.
func LentOf(r *rule.Rule, sources []stint.Decision) *Lent {
	if r.Elastic == nil || len(sources) == 0 {
		return nil
	}
	lent := &Lent{Room: sources[0].Remaining, Cap: bucketOf(&sources[0])}
	for i := range sources {
		lent.Room = min(lent.Room, sources[i].Remaining)
	}
	if r.Elastic.Pool != nil && len(sources) > 1 {
		pool := bucketOf(&sources[1])
		lent.Pool = &pool
	}
	return lent
}

func bucketOf(d *stint.Decision) Bucket {
	return Bucket{Limit: d.Limit, Used: d.Limit - d.Remaining, Remaining: d.Remaining}
}
