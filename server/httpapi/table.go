package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"stint"
	"stint/internal/jsonbody"
	"stint/rule"
)

// tableAnswer is the answer to GET /v1/limits: the current rules.
type tableAnswer struct {
	Hash       string         `json:"hash"`
	Generation uint64         `json:"generation"`
	Rules      int            `json:"rules"`
	Domains    []domainAnswer `json:"domains"`
	Catalog    *CatalogStatus `json:"catalog,omitempty"`
}

type domainAnswer struct {
	Domain string       `json:"domain"`
	Atomic bool         `json:"atomic"`
	Rules  []ruleAnswer `json:"rules"`
}

// ruleAnswer is one rule, in the words of rule files.
type ruleAnswer struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
	limitAnswer
	policyAnswer
	Shadow   bool     `json:"shadow"`
	Quota    bool     `json:"quota"`
	Replaces []string `json:"replaces,omitempty"`

	OnStoreFailure string `json:"on_store_failure"`
	Coordination   string `json:"coordination"`
}

// limitAnswer are the numbers of a limit. Numbers that its algorithm does not have are omitted; an
// unlimited limit has none.
type limitAnswer struct {
	Algorithm   string  `json:"algorithm"`
	Requests    *uint32 `json:"requests,omitempty"`
	Per         string  `json:"per,omitempty"`
	Burst       *uint32 `json:"burst,omitempty"`
	Refill      string  `json:"refill,omitempty"`
	Align       string  `json:"align,omitempty"`
	TimeZone    string  `json:"time_zone,omitempty"`
	Blocks      int     `json:"blocks,omitempty"`
	Start       string  `json:"start,omitempty"`
	MinInterval string  `json:"min_interval,omitempty"`
	MaxWait     string  `json:"max_wait,omitempty"`
	CountDenied bool    `json:"count_denied,omitempty"`
	Overdraw    bool    `json:"overdraw,omitempty"`
}

func (a *admin) limits(w http.ResponseWriter, _ *http.Request) {
	status := a.status()
	answer := tableAnswer{Domains: []domainAnswer{}, Generation: status.Generation, Catalog: status.Catalog}
	if table := a.limiter.Table(); table != nil {
		answer.fill(table)
	}
	jsonbody.WriteJSON(w, http.StatusOK, answer)
}

func (a *tableAnswer) fill(table *rule.Table) {
	a.Hash, a.Rules = table.Hash(), len(table.Rules())
	place := map[string]int{}
	for i, d := range table.Domains() {
		place[d.Name()] = i
		a.Domains = append(a.Domains, domainAnswer{Domain: d.Name(), Atomic: d.Atomic(), Rules: []ruleAnswer{}})
	}
	for _, r := range table.Rules() {
		d := &a.Domains[place[r.Domain]]
		d.Rules = append(d.Rules, ruleAnswer{
			Name: r.Name, File: r.File, Line: r.Line,
			limitAnswer: describe(r.Limit), policyAnswer: policyOf(r),
			Shadow: r.Shadow, Quota: r.Quota, Replaces: r.Replaces,
			OnStoreFailure: r.OnStoreFailure.String(), Coordination: r.Coordination.String(),
		})
	}
}

// describe returns the numbers of a limit.
func describe(l *stint.Limit) limitAnswer {
	s := l.Spec()
	a := limitAnswer{Algorithm: s.Algorithm.String()}
	if s.Algorithm == stint.Unlimited {
		return a
	}
	a.Requests, a.Per = &s.Requests, formatSpan(s.Per)
	a.CountDenied, a.Overdraw, a.Blocks = s.CountDenied, s.Overdraw, s.Blocks
	switch s.Algorithm {
	case stint.TokenBucket:
		a.Burst, a.Refill = &s.Burst, "steady"
		if s.Step {
			a.Refill = "step"
		}
	case stint.LeakyBucket:
		a.Burst = &s.Burst
		a.MaxWait = spanOrNone(s.MaxWait)
	case stint.FixedWindow:
		a.Align = "epoch"
		if s.FromFirst {
			a.Align = "first"
		}
	case stint.SlidingLog:
		a.MinInterval = spanOrNone(s.MinInterval)
	case stint.SlidingWindow:
		a.Start = "unused"
		if s.StartUsedUp {
			a.Start = "used_up"
		}
	}
	if s.Calendar != stint.NoPeriod {
		a.Per, a.TimeZone = s.Calendar.String(), "UTC"
		if s.Zone != nil {
			a.TimeZone = s.Zone.String()
		}
	}
	return a
}

func spanOrNone(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return formatSpan(d)
}

// formatSpan formats a duration in the largest unit that divides it.
func formatSpan(d time.Duration) string {
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if d >= u.size && d%u.size == 0 {
			return strconv.FormatInt(int64(d/u.size), 10) + u.name
		}
	}
	return d.String()
}
