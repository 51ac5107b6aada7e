package script

import (
	"fmt"
	"strings"

	"stint"
)

// ReadLending parses the loans of a state, which follow its tilde, and their epoch, 0 if nothing
// ever was lent: see lua/lend.lua.
func ReadLending(state string) (epoch stint.Instant, lent []stint.Lent) {
	_, text, _ := strings.Cut(state, "~")
	words := strings.NewReader(text)
	var called int64
	if n, _ := fmt.Fscan(words, &epoch, &called); n < 2 {
		return epoch, nil // nothing is lent
	}
	for {
		var one stint.Lent
		var seq, grant int64
		if n, _ := fmt.Fscan(words, &one.Node, &seq, &one.Units, &grant, &one.At); n < 5 {
			return epoch, lent
		}
		lent = append(lent, one)
	}
}
