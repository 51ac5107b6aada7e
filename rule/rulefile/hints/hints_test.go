package hints

import (
	"testing"
)

func TestHints(t *testing.T) {
	for _, tt := range []struct {
		about      func(string) string
		word, want string
	}{
		{Top, "rules", "write descriptors:"},
		{Top, "burst", "burst belongs inside rate_limit"},
		{Descriptor, "dryRun", "write shadow_mode: true"},
		{Limit, "max-value", "write requests:"},
		{Limit, "shadow_mode", "shadow_mode belongs inside a descriptor, beside rate_limit"},
		{Descriptor, "cache", "cache belongs beside coordination: eventual"},
		{Elsewhere, "cidrs", "cidrs belongs inside exempt and deny"},
		{Elsewhere, "max_value", ""},
		{Limit, "qqqq", ""},
	} {
		if got := tt.about(tt.word); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.word, got, tt.want)
		}
	}
}
