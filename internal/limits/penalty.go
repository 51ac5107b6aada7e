package limits

import (
	"fmt"
	"strings"
	"time"

	"stint"
	"stint/internal/text"
)

// Ladder returns how long each step of a penalty lasts, in the words of a rule file.
func Ladder(s *stint.Spec) []string {
	var steps []string
	for word := range strings.FieldsSeq(s.Ladder) {
		step, _ := time.ParseDuration(word) // NewLimit has parsed it
		steps = append(steps, text.FormatDuration(step))
	}
	return steps
}

// Percent returns millionths as a percentage.
func Percent(millionths uint32) string { return fmt.Sprintf("%g%%", float64(millionths)/10_000) }

// formatPenalty is Format for a penalty.
func formatPenalty(s *stint.Spec) string {
	written := fmt.Sprintf("penalty after %d denied per %s: %s, decay %s",
		s.Requests, text.FormatDuration(s.Per), strings.Join(Ladder(s), " "), text.FormatDuration(s.Decay))
	if s.Jitter > 0 {
		written += ", jitter " + Percent(s.Jitter)
	}
	return written
}
