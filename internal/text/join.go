package text

import (
	"fmt"
	"strings"
)

// few is how many names a sentence has at most.
const few = 5

// Join joins names by commas, with at most five of them.
func Join(names []string) string {
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}

// JoinWith is Join with a word, such as or, before the last of at most five names.
func JoinWith(names []string, word string) string {
	if last := len(names) - 1; last > 0 && last < few {
		return strings.Join(names[:last], ", ") + " " + word + " " + names[last]
	}
	return Join(names)
}
