package rulefile

import (
	"testing"
)

func TestHints(t *testing.T) {
	for _, tt := range []struct {
		about      func(string) string
		word, want string
	}{
		{topHint, "rules", "write descriptors:"},
		{topHint, "burst", "burst belongs inside rate_limit"},
		{descriptorHint, "dryRun", "write shadow_mode: true"},
		{limitHint, "max-value", "write requests:"},
		{limitHint, "shadow_mode", "shadow_mode belongs inside a descriptor, beside rate_limit"},
		{descriptorHint, "cache", "cache belongs beside coordination: eventual"},
		{elsewhereHint, "cidrs", "cidrs belongs inside exempt and deny"},
		{elsewhereHint, "max_value", ""},
		{limitHint, "qqqq", ""},
	} {
		if got := tt.about(tt.word); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.word, got, tt.want)
		}
	}
}
