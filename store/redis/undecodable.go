package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"stint"
	"stint/store/redis/connect"
)

// errUndecodable says that a group was not decided as the state of some part cannot be read: the
// parts say which. Nothing was charged.
var errUndecodable = errors.New("redis: the state of a key cannot be read")

// readUnread notes which parts of a group have a state that cannot be read, if that is what a
// script says.
func (b *batch) readUnread(g *group, said string) bool {
	rest, is := strings.CutPrefix(said, "STINT-TAKES ")
	places, why, whole := strings.Cut(rest, " ")
	if !is || !whole {
		return false
	}
	for place := range strings.SplitSeq(places, ",") {
		n, err := strconv.Atoi(place)
		if err != nil || n < 1 || n > g.end-g.first {
			return false
		}
		b.parts[g.first+n-1].undecodable = connect.Plain(why)
	}
	g.undecodable = true
	return true
}

// unreadable returns the error about takes whose states cannot be read, nil where all can.
func (b *batch) unreadable() error {
	var takes []int
	first := -1
	for i, n := range b.of {
		if b.parts[n].undecodable == "" {
			continue
		}
		if takes = append(takes, i); first < 0 {
			first = n
		}
	}
	if first < 0 {
		return nil
	}
	p := &b.parts[first]
	word, _, _ := strings.Cut(p.undecodable, " ")
	return &Error{
		Doing: "decide", Problem: fmt.Sprintf("%s; the key is %q", p.undecodable, p.name), Hint: connect.Hint(word),
		Err: &stint.CorruptState{Takes: takes},
	}
}
