package text_test

import (
	"strings"
	"testing"

	"stint/internal/text"
)

func TestJoin(t *testing.T) {
	for _, tt := range []struct{ names, join, or string }{
		{"", "", ""},
		{"a", "a", "a"},
		{"a b", "a, b", "a or b"},
		{"a b c d e", "a, b, c, d, e", "a, b, c, d or e"},
		{"a b c d e f g", "a, b, c, d, e and 2 more", "a, b, c, d, e and 2 more"},
	} {
		names := strings.Fields(tt.names)
		if join, or := text.Join(names), text.JoinWith(names, "or"); join != tt.join || or != tt.or {
			t.Errorf("%q: %q and %q", tt.names, join, or)
		}
	}
}
