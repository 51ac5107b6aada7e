package script

import (
	"strconv"
	"strings"

	"stint"
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

// Retry parses the answer that a group was not decided, and can be if it is sent once more: with
// calendar windows around the server's time now, or in a script with the Lua files of more kinds.
// is reports whether the answer is of this kind. Both are 0 if it is not.
func Retry(answer string) (now stint.Instant, more Kinds, is bool) {
	if time, ok := strings.CutPrefix(answer, "STINT-WINDOW "); ok {
		n, err := strconv.ParseInt(time, 10, 64)
		return stint.Instant(n), 0, err == nil
	}
	head, ok := strings.CutPrefix(answer, needsPrefix)
	return 0, KindsOf(head), ok
}

// needsPrefix begins the answer of a script that lacks the algorithm of a state.
const needsPrefix = "STINT-NEEDS "

// Problem returns the text of an answer that a group was not decided; "" if the group only follows another
// one that was not.
func Problem(answer string) string {
	if head, ok := strings.CutPrefix(answer, needsPrefix); ok {
		return "STINT-STATE was written by another release: " + head
	}
	if answer == "STINT-AFTER" {
		return ""
	}
	return answer
}
