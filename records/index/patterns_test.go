package index

import (
	"slices"
	"testing"
)

// Of all values whose pattern matches, the one with the longer pattern comes first, then the newer one.
// A change leaves older tables as they are.
func TestPatterns(t *testing.T) {
	match := func(p Patterns[string], key, value string) (all []string) {
		for v := range p.Match(key, value) {
			all = append(all, *v)
		}
		return all
	}
	var none Patterns[string]
	p := none.With("user=te*", "a", 1, "short").With("user=test-*", "a", 1, "long").With("user=te*", "b", 2, "newer").With("org=*x*", "a", 3, "org")
	for _, tt := range []struct {
		key, value string
		want       []string
	}{
		{"user", "test-7", []string{"long", "newer", "short"}},
		{"user", "tea", []string{"newer", "short"}},
		{"user", "other", nil},
		{"org", "axb", []string{"org"}},
		{"team", "test-7", nil},
	} {
		if got := match(p, tt.key, tt.value); !slices.Equal(got, tt.want) {
			t.Errorf("%s=%s: %q, want %q", tt.key, tt.value, got, tt.want)
		}
	}
	replaced := p.With("user=test-*", "a", 4, "again")
	removed := replaced.Without("user=te*", "b").Without("user=te*", "none")
	if got := match(removed, "user", "test-7"); !slices.Equal(got, []string{"again", "short"}) || removed.Len() != 3 || replaced.Len() != 4 {
		t.Errorf("%q, %d and %d values", got, removed.Len(), replaced.Len())
	}
	if got := match(p, "user", "test-7"); !slices.Equal(got, []string{"long", "newer", "short"}) || none.Len() != 0 {
		t.Errorf("an older table has %q", got)
	}
}
