package script

import (
	"strconv"
	"strings"
)

// Undecodable parses the answer that some states of a group of n takes cannot be read. It returns
// the indexes of those takes and the reason. is reports whether the answer is of this kind.
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
