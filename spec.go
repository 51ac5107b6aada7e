package stint

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// check returns the first thing that is wrong with the spec by itself.
func (s *Spec) check() error {
	if int(s.Algorithm) >= len(algorithmNames) {
		return &SpecError{Field: "algorithm", Problem: "unknown algorithm " + s.Algorithm.String(), Hint: "use one of the constants of package stint"}
	}
	if err := s.checkForeign(); err != nil {
		return err
	}
	if s.Algorithm == Unlimited {
		return nil
	}
	if err := s.checkPer(); err != nil {
		return err
	}
	switch s.Algorithm {
	case FixedWindow:
		if s.CarryDebt && (s.FromFirst || s.Calendar != NoPeriod) {
			return &SpecError{Field: "carry_debt", Problem: "a debt is carried from one multiple of per to the next only", Hint: "leave out align and time_zone"}
		}
	case SlidingLog:
		return checkSpan("min_interval", s.MinInterval, s.Per, "a distance above per would never let the limit be reached")
	case LeakyBucket:
		return checkSpan("max_wait", s.MaxWait, MaxFill, "nobody waits that long")
	case SlidingWindow:
		return s.checkBlocks()
	case Penalty:
		return s.checkPenalty()
	}
	return nil
}

// checkForeign refuses words of one algorithm on another.
func (s *Spec) checkForeign() error {
	words := []struct {
		field string
		set   bool
		of    []Algorithm
	}{
		{"requests", s.Requests != 0, []Algorithm{FixedWindow, TokenBucket, LeakyBucket, SlidingLog, SlidingWindow, Penalty}},
		{"burst", s.Burst != 0, []Algorithm{TokenBucket, LeakyBucket}},
		{"refill", s.Step, []Algorithm{TokenBucket}},
		{"count", s.Reserve, []Algorithm{TokenBucket}},
		{"max_wait", s.MaxWait != 0, []Algorithm{LeakyBucket}},
		{"align", s.FromFirst, []Algorithm{FixedWindow}},
		{"carry_debt", s.CarryDebt, []Algorithm{FixedWindow}},
		{"time_zone", s.Calendar != NoPeriod || s.Zone != nil, []Algorithm{FixedWindow}},
		{"anchor", s.Anchor != 0, []Algorithm{FixedWindow}},
		{"blocks", s.Blocks != 0, []Algorithm{SlidingWindow}},
		{"start", s.StartUsedUp, []Algorithm{SlidingWindow}},
		{"min_interval", s.MinInterval != 0, []Algorithm{SlidingLog}},
		{"count_denied", s.CountDenied, []Algorithm{SlidingLog}},
		{"ladder", s.Ladder != "", []Algorithm{Penalty}},
		{"decay", s.Decay != 0, []Algorithm{Penalty}},
		{"jitter", s.Jitter != 0, []Algorithm{Penalty}},
		{"overdraw", s.Overdraw, []Algorithm{FixedWindow, TokenBucket, SlidingLog, SlidingWindow}},
	}
	for _, w := range words {
		if w.set && !slices.Contains(w.of, s.Algorithm) {
			return &SpecError{
				Field: w.field, Problem: "not a word of " + s.Algorithm.String(),
				Hint: fmt.Sprintf("it belongs to %s; leave it out or change the algorithm", join(w.of)),
			}
		}
	}
	return nil
}

func join(list []Algorithm) string {
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = a.String()
	}
	return strings.Join(names, ", ")
}

func (s *Spec) checkPer() error {
	if s.Anchor > 31 || s.Anchor > 0 && s.Calendar != Month {
		return &SpecError{Field: "anchor", Problem: fmt.Sprintf("%d is no day of a period", s.Anchor), Hint: "give a day from 1 to 31, with unit: month and time_zone"}
	}
	if s.Calendar != NoPeriod {
		if int(s.Calendar) >= len(periodNames) || s.Per != 0 || s.FromFirst {
			return &SpecError{Field: "time_zone", Problem: "a calendar period stands with another length or start", Hint: "give unit: day, week, month or year and time_zone alone"}
		}
		return nil
	}
	if s.Zone != nil {
		return &SpecError{Field: "time_zone", Problem: "a time zone without a calendar period", Hint: "use it with unit: day, week, month or year"}
	}
	if s.Per < MinPer || s.Per > MaxPer {
		return &SpecError{Field: "per", Problem: fmt.Sprintf("%v is outside 10ms to 366d", s.Per), Hint: "give a period such as 1s, 15m or 1d"}
	}
	if s.Per%time.Microsecond != 0 {
		return &SpecError{Field: "per", Problem: fmt.Sprintf("%v is not in whole microseconds", s.Per), Hint: "round it to a microsecond"}
	}
	return nil
}

func (s *Spec) checkBlocks() error {
	if s.Blocks < 0 || s.Blocks > MaxBlocks {
		return &SpecError{Field: "blocks", Problem: fmt.Sprintf("%d is outside 1 to %d", s.Blocks, MaxBlocks), Hint: "10 to 60 blocks are enough for most"}
	}
	if s.Blocks > 0 && s.Per.Microseconds()%int64(s.Blocks) != 0 {
		return &SpecError{Field: "blocks", Problem: fmt.Sprintf("%d blocks do not divide %v in whole microseconds", s.Blocks, s.Per), Hint: "choose a divisor, such as 1, 2, 5, 10 or 60"}
	}
	return nil
}

// checkSpan checks an optional duration of a spec.
func checkSpan(field string, d, most time.Duration, hint string) error {
	switch {
	case d < 0:
		return &SpecError{Field: field, Problem: fmt.Sprintf("%v is negative", d), Hint: "leave it out for none"}
	case d%time.Microsecond != 0:
		return &SpecError{Field: field, Problem: fmt.Sprintf("%v is not in whole microseconds", d), Hint: "round it to a microsecond"}
	case d > most:
		return &SpecError{Field: field, Problem: fmt.Sprintf("%v is above %v", d, most), Hint: hint}
	}
	return nil
}
