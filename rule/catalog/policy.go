package catalog

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"stint"
	"stint/rule"
)

// readPolicy reads the words of a policy.
func (t *terms) readPolicy(text string) error {
	failure := ""
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == ' ' || c == '+' || c == '\t' }) {
		word = strings.ToLower(word)
		switch part, isSoft := strings.CutPrefix(word, "soft:"); {
		case word == "allow" || word == "deny":
			if failure != "" && failure != word {
				return &hinted{"allow and deny together", "name the one that answers when the store cannot"}
			}
			failure = word
			t.onStoreFailure = rule.Allow
			if word == "deny" {
				t.onStoreFailure = rule.Deny
			}
		case word == "shadow":
			t.shadow = true
		case word == "hard":
		case isSoft:
			if err := t.readSoft(part); err != nil {
				return err
			}
		default:
			return &hinted{fmt.Sprintf("%q is no policy", word), "known are allow, deny, shadow, hard and soft:10%; whatever else a rule can do stands in a YAML file"}
		}
	}
	return nil
}

// readSoft reads how much of the limit may pass above it.
func (t *terms) readSoft(text string) error {
	number, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(percent > 0) || percent > 100 {
		return &hinted{fmt.Sprintf("soft:%s is no part of the limit", text), "write more than 0% and at most 100%, such as soft:10%"}
	}
	t.soft = rule.Ratio(math.Round(percent * float64(rule.Whole) / 100))
	return nil
}

// soften returns a limit with requests and burst larger by a part, rounded down.
func soften(limit *stint.Limit, by rule.Ratio) (*stint.Limit, error) {
	spec := limit.Spec()
	if spec.Algorithm == stint.LeakyBucket || spec.Algorithm == stint.Unlimited {
		return nil, &hinted{"soft does nothing for " + spec.Algorithm.String(), "leave it out"}
	}
	larger := func(n uint32) uint32 {
		return uint32(min(uint64(n)*uint64(rule.Whole+by)/uint64(rule.Whole), math.MaxUint32))
	}
	spec.Requests, spec.Burst = larger(spec.Requests), larger(spec.Burst)
	stored, err := stint.NewLimit(spec)
	if err != nil {
		return nil, &hinted{fmt.Sprintf("soft: the larger limit is refused: %v", err), "lower the percentage or the limit"}
	}
	return stored, nil
}
