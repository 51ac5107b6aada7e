package response

import (
	"time"

	"stint"
	"stint/internal/limits"
	"stint/internal/text"
	"stint/rule"
)

// PenaltyAnswer is the penalty of a rule, in the words of rule files.
type PenaltyAnswer struct {
	After  uint32   `json:"after"`
	Ladder []string `json:"ladder"`
	Decay  string   `json:"decay"`
	Jitter string   `json:"jitter,omitempty"`
}

// PenaltyOf returns the penalty of a rule, nil if it has none.
func PenaltyOf(r *rule.Rule) *PenaltyAnswer {
	if r.Penalty == nil {
		return nil
	}
	s := r.Penalty.Spec()
	p := &PenaltyAnswer{After: s.Requests, Ladder: limits.Ladder(&s), Decay: text.FormatDuration(s.Decay)}
	if s.Jitter > 0 {
		p.Jitter = limits.Percent(s.Jitter)
	}
	return p
}

// KeyPenalty is the state of a key's penalty.
type KeyPenalty struct {
	// Level is how many steps of the ladder count. Left is how many more denied tries start the
	// next one, 0 while one runs.
	Level uint8 `json:"level"`
	Left  int64 `json:"left"`

	// RetryAfterMS is until the end of the step that runs, and Until that time; 0 and nil if none
	// does. ResetAfterMS is until nothing counts any more.
	RetryAfterMS int64      `json:"retry_after_ms"`
	Until        *time.Time `json:"until,omitempty"`
	ResetAfterMS int64      `json:"reset_after_ms"`
}

// PenaltyOfKey returns the state of a key by the decision of its penalty.
func PenaltyOfKey(d *stint.Decision) *KeyPenalty {
	p := &KeyPenalty{Level: uint8(d.Debt), Left: d.Remaining, RetryAfterMS: Millis(d.RetryAfter), ResetAfterMS: Millis(d.ResetAfter)}
	if !d.Allowed {
		until := d.At.Add(d.RetryAfter).Time()
		p.Until = &until
	}
	return p
}
