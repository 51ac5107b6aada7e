package catalog

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"stint"
	"stint/rule"
)

// readPolicy parses a policy.
func (t *terms) readPolicy(text string) error {
	failure := ""
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == ' ' || c == '+' || c == '\t' }) {
		word = strings.ToLower(word)
		switch part, isSoft := strings.CutPrefix(word, "soft:"); {
		case word == "allow" || word == "deny":
			if failure != "" && failure != word {
				return &hinted{"allow and deny together", "write only the answer to give when the store is away"}
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
			return &hinted{fmt.Sprintf("%q is not a policy", word), "write allow, deny, shadow, hard or soft:10%; other features need a YAML rule file"}
		}
	}
	return nil
}

// readSoft parses the part of the limit that may pass above it.
func (t *terms) readSoft(text string) error {
	number, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(percent > 0) || percent > 100 {
		return &hinted{fmt.Sprintf("soft:%s is not a valid percentage", text), "write more than 0% and at most 100%, such as soft:10%"}
	}
	t.soft = rule.Ratio(math.Round(percent * float64(rule.Whole) / 100))
	return nil
}

// soften returns a limit with requests and burst increased by a ratio, rounded down.
func soften(limit *stint.Limit, by rule.Ratio) (*stint.Limit, error) {
	spec := limit.Spec()
	if spec.Algorithm == stint.LeakyBucket || spec.Algorithm == stint.Unlimited {
		return nil, &hinted{"soft has no effect for " + spec.Algorithm.String(), "leave it out"}
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
