package httpapi

import (
	"strings"
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/text"
	"stint/rule"
)

// policyAnswer is the policy of a rule, in the words of rule files.
type policyAnswer struct {
	Soft     string         `json:"soft,omitempty"`
	Count    string         `json:"count,omitempty"`
	Statuses []string       `json:"statuses,omitempty"`
	Elastic  *elasticAnswer `json:"elastic,omitempty"`
	Penalty  *penaltyAnswer `json:"penalty,omitempty"`
}

// penaltyAnswer is the penalty of a rule.
type penaltyAnswer struct {
	After  uint32   `json:"after"`
	Ladder []string `json:"ladder"`
	Decay  string   `json:"decay"`
	Jitter string   `json:"jitter,omitempty"`
}

// penalizedAnswer is the state of a key's penalty.
type penalizedAnswer struct {
	// Level is how many steps of the ladder count. Left is how many more denied tries start the
	// next one, 0 while one runs.
	Level uint8 `json:"level"`
	Left  int64 `json:"left"`

	// RetryAfterMS is until the end of the step that runs, and Until that time; 0 and absent if
	// none does. ResetAfterMS is until nothing counts any more.
	RetryAfterMS int64      `json:"retry_after_ms"`
	Until        *time.Time `json:"until,omitempty"`
	ResetAfterMS int64      `json:"reset_after_ms"`
}

// penalizedOf returns the state of a key by the decision of its penalty.
func penalizedOf(d *stint.Decision) *penalizedAnswer {
	p := &penalizedAnswer{Level: d.Level, Left: d.Remaining, RetryAfterMS: millis(d.RetryAfter), ResetAfterMS: millis(d.ResetAfter)}
	if !d.Allowed {
		until := d.At.Add(d.RetryAfter).Time()
		p.Until = &until
	}
	return p
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
	var p policyAnswer
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
	if r.Penalty != nil {
		s := r.Penalty.Spec()
		p.Penalty = &penaltyAnswer{After: s.Requests, Ladder: limits.Ladder(&s), Decay: text.FormatDuration(s.Decay)}
		if s.Jitter > 0 {
			p.Penalty.Jitter = limits.Percent(s.Jitter)
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
