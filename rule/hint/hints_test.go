package hint_test

import (
	"testing"

	"stint/rule/hint"
)

func TestHints(t *testing.T) {
	for _, tt := range []struct {
		about      func(string) string
		word, want string
	}{
		{hint.Top, "rules", "write descriptors:"},
		{hint.Top, "burst", "burst stands inside rate_limit"},
		{hint.Descriptor, "dryRun", "write shadow_mode: true"},
		{hint.Limit, "max-value", "write requests:"},
		{hint.Limit, "shadow_mode", "shadow_mode stands inside a descriptor, beside rate_limit"},
		{hint.Descriptor, "cache", "cache stands beside coordination: eventual"},
		{hint.Elsewhere, "cidrs", "cidrs stands inside exempt and deny"},
		{hint.Elsewhere, "max_value", ""},
		{hint.Limit, "qqqq", ""},
	} {
		if got := tt.about(tt.word); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.word, got, tt.want)
		}
	}
}
