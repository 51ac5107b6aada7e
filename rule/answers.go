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

// ParseStatuses returns the first and the last status of a text such as 401, 4xx or 400-403.
func ParseStatuses(text string) (from, to int, ok bool) {
	if class, rest := text[:min(len(text), 1)], text[min(len(text), 1):]; strings.EqualFold(rest, "xx") {
		from, ok = parseStatus(class + "00")
		return from, from + 99, ok
	}
	first, last, isRange := strings.Cut(text, "-")
	from, ok = parseStatus(first)
	if to = from; isRange && ok {
		to, ok = parseStatus(last)
	}
	return from, to, ok && from <= to
}

func parseStatus(text string) (int, bool) {
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, len(text) == 3 && n >= LeastStatus && n <= MostStatus
}
