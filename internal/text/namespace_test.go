package text

import (
	"strings"
	"testing"
)

func TestCheckNamespace(t *testing.T) {
	for name, want := range map[string]string{
		"a": "", "Stint-1.staging_eu": "", strings.Repeat("a", 64): "",
		"": "namespace of 0 characters", strings.Repeat("a", 65): "namespace of 65 characters",
		"a:b": `namespace "a:b" has a character that is not allowed`, "{a}": `namespace "{a}" has a character that is not allowed`,
		"a b": `namespace "a b" has a character that is not allowed`, "aéa": `namespace "aéa" has a character that is not allowed`,
	} {
		if problem, hint := CheckNamespace(name); problem != want || (hint == "") != (want == "") {
			t.Errorf("%q: %q, %q, want %q", name, problem, hint, want)
		}
	}
}
