package redis

import (
	"errors"
	"fmt"
	"strings"

	"stint"
	"stint/internal/transaction"
	"stint/store/redis/connect"
	"stint/store/redis/script"
)

// errUndecodable means that a group was not decided, because the state of some part cannot be read;
// part.undecodable says why. Nothing was charged.
var errUndecodable = errors.New("redis: the state of a key cannot be read")

// noteUndecodable reports whether a script answered that it cannot read some states of a group, and
// marks their parts.
func (b *batch) noteUndecodable(g *group, answer string) bool {
	places, why, is := script.Undecodable(answer, g.end-g.first)
	for _, place := range places {
		b.parts[g.first+place].undecodable = connect.Plain(why)
		if problem, lost := script.LostCounts(why); lost {
			b.parts[g.first+place].undecodable = problem
		}
	}
	g.undecodable = is
	return is
}

// corrupt returns the error about takes whose states cannot be read, nil if all can be.
func (b *batch) corrupt() error {
	var takes []int
	first := -1
	for i, n := range b.partOf {
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
	err := error(&stint.CorruptState{Takes: takes})
	if word == script.Lost {
		err = errors.Join(err, transaction.ErrLost)
	}
	return &Error{Doing: "decide", Problem: fmt.Sprintf("%s; the key is %q", p.undecodable, p.name), Hint: connect.Hint(word), Err: err}
}
