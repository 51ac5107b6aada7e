package limitjson

import (
	"time"

	"stint/limiter"
)

// Override is the override whose numbers a limit has.
type Override struct {
	// Target is the subject or the pattern, such as user=42.
	Target string `json:"target"`
	// Until is its end; without it there is none.
	Until time.Time `json:"until,omitzero"`

	// Rule are the numbers of the rule itself.
	Rule Limit `json:"rule"`
}

// OverrideOf returns the override that applies to limit number i of a verdict; nil if none does.
func OverrideOf(v *limiter.Verdict, i int) *Override {
	o, ok := v.Override(i)
	if !ok {
		return nil
	}
	return &Override{Target: o.Target, Until: o.Until, Rule: LimitOf(v.Asked[i].Rule.Base.Limit)}
}
