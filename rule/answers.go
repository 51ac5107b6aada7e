package rule

import (
	"fmt"
	"strings"
)

// The statuses of HTTP that an answer may have.
const (
	LeastStatus = 100
	MostStatus  = 599
)

// Answers is the set of HTTP statuses that a limit with `count: responses` charges. The request
// reserves its units when it comes; once its status is known they are charged or given back.
type Answers struct {
	statuses [(MostStatus-LeastStatus)/64 + 1]uint64 // a bit for each, from LeastStatus on
}

// Add adds the statuses from first to last to the set. Both lie between LeastStatus and
// MostStatus.
func (a *Answers) Add(first, last int) {
	for i := first - LeastStatus; i <= last-LeastStatus; i++ {
		a.statuses[i/64] |= 1 << (i % 64)
	}
}

// Charges reports whether an answer with that status is charged. Numbers outside LeastStatus to
// MostStatus never are.
func (a *Answers) Charges(status int) bool {
	i := status - LeastStatus
	return i >= 0 && status <= MostStatus && a.statuses[i/64]>>(i%64)&1 != 0
}

// Same reports whether two limits charge the same answers; nil is a limit that charges every
// request.
func (a *Answers) Same(other *Answers) bool {
	if a == nil || other == nil {
		return a == other
	}
	return *a == *other
}

// String returns the statuses as a rule file may write them.
func (a *Answers) String() string {
	var words []string
	for from := LeastStatus; from <= MostStatus; from++ {
		if !a.Charges(from) {
			continue
		}
		to := from
		for a.Charges(to + 1) {
			to++
		}
		word := fmt.Sprint(from)
		if to > from {
			word = fmt.Sprintf("%d-%d", from, to)
		}
		words = append(words, word)
		from = to
	}
	return strings.Join(words, " ")
}
