package rulefile

import (
	"strings"
	"testing"

	"stint/internal/strictyaml"
	"stint/rule/rulefile/hints"
)

// Every word of a descriptor or a limit has a place that hints can name, and no hint for a
// foreign word hides one of Stint's words.
func TestEveryWordHasAPlace(t *testing.T) {
	l := limit{said: map[string]strictyaml.Value{}}
	for where, words := range map[string]strictyaml.Words{"descriptor": new(descriptor).words(), "limit": l.words()} {
		about := map[string]func(string) string{"descriptor": hints.Descriptor, "limit": hints.Limit}[where]
		for word := range words {
			if got := about(word); !strings.HasPrefix(got, word+" belongs ") {
				t.Errorf("%s in a %s: %q", word, where, got)
			}
		}
	}
}
