package rule

import (
	"testing"

	"stint/internal/strictyaml"
)

// Every word that a descriptor or a limit knows has a place, so that a hint can name
// it, and no hint for a word of other tools hides one of ours.
func TestEveryWordHasAPlace(t *testing.T) {
	l := limit{said: map[string]strictyaml.Value{}}
	for where, words := range map[string]strictyaml.Words{"descriptor": new(descriptor).words(), "limit": l.words()} {
		foreign := map[string]map[string]string{"descriptor": foreignDescriptor, "limit": foreignLimit}[where]
		for word := range words {
			if places[word] == "" {
				t.Errorf("%s has no place", word)
			}
			if foreign[word] != "" || notYet[word] {
				t.Errorf("%s is a word of a %s and of other tools", word, where)
			}
		}
	}
}
