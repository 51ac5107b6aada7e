package script

import (
	"strconv"
	"strings"
)

// Undecodable reads the answer of a script about a group of n takes: which of them, from 0, have
// a state that cannot be read, and why. Any other answer is none of this kind.
func Undecodable(answer string, n int) (places []int, why string, is bool) {
	rest, is := strings.CutPrefix(answer, "STINT-TAKES ")
	list, why, whole := strings.Cut(rest, " ")
	if !is || !whole {
		return nil, "", false
	}
	for text := range strings.SplitSeq(list, ",") {
		place, err := strconv.Atoi(text)
		if err != nil || place < 1 || place > n {
			return nil, "", false
		}
		places = append(places, place-1)
	}
	return places, why, true
}
