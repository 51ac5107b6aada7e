package hints

import (
	"fmt"
	"strings"

	"stint/internal/strictyaml"
)

// Algorithm names the algorithm that people mean by another name.
func Algorithm(text string) string {
	known := []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_log", "sliding_window"}
	plain := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(text))
	other := map[string]string{
		"gcra": "token_bucket", "bucket": "token_bucket", "token": "token_bucket", "tokenbucket": "token_bucket",
		"leaky": "leaky_bucket", "fixed": "fixed_window", "window": "fixed_window", "counter": "fixed_window",
		"sliding": "sliding_window", "sliding_window_counter": "sliding_window", "sliding_counter": "sliding_window",
		"sliding_window_log": "sliding_log", "sliding_logs": "sliding_log", "log": "sliding_log", "rolling_window": "sliding_log",
	}
	if plain == "penalty" {
		return "a penalty stands beside a limit: write penalty: {after: 3, ladder: [1m, 10m]} inside the rate_limit"
	}
	if ours := other[plain]; ours != "" {
		return fmt.Sprintf("here it is called %q", ours)
	}
	if near := strictyaml.Nearest(text, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known are " + strings.Join(known, ", ")
}
