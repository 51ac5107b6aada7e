package limitjson

import (
	"strconv"
	"time"

	"stint"
)

// Limit are the numbers of a limit. Numbers that its algorithm does not have are omitted; an
// unlimited limit has none.
type Limit struct {
	Algorithm   string  `json:"algorithm"`
	Requests    *uint32 `json:"requests,omitempty"`
	Per         string  `json:"per,omitempty"`
	Burst       *uint32 `json:"burst,omitempty"`
	Refill      string  `json:"refill,omitempty"`
	Align       string  `json:"align,omitempty"`
	TimeZone    string  `json:"time_zone,omitempty"`
	Anchor      uint8   `json:"anchor,omitempty"`
	Blocks      int     `json:"blocks,omitempty"`
	Start       string  `json:"start,omitempty"`
	MinInterval string  `json:"min_interval,omitempty"`
	MaxWait     string  `json:"max_wait,omitempty"`
	CountDenied bool    `json:"count_denied,omitempty"`
	Overdraw    bool    `json:"overdraw,omitempty"`
}

// LimitOf returns the numbers of a limit.
func LimitOf(l *stint.Limit) Limit {
	s := l.Spec()
	a := Limit{Algorithm: s.Algorithm.String()}
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
		a.Anchor = s.Anchor
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
