package text

import "testing"

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, value string
		want           bool
	}{
		{"*", "", true},
		{"a*", "a", true},
		{"a*", "b", false},
		{"*a", "ba", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "axxbyyc", true},
		{"a*b*c", "acb", false},
		{"a*b*b*c", "abc", false},
		{"a**c", "axc", true},
	} {
		if p := NewGlob(test.pattern); p.Matches(test.value) != test.want {
			t.Errorf("%q matches %q: %v", test.pattern, test.value, !test.want)
		}
	}
}
