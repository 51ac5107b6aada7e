package rule

// The statuses of HTTP that an answer may have.
const (
	leastStatus = 100
	mostStatus  = 599
)

// Answers says which answers a limit with `count: responses` charges. What passes is
// reserved when the request comes, and charged or given back when its answer is
// known.
type Answers struct {
	statuses [(mostStatus-leastStatus)/64 + 1]uint64 // a bit for each, from leastStatus on
}

// Charges says whether an answer of that status is charged. Numbers that are no
// status of HTTP are not.
func (a *Answers) Charges(status int) bool {
	i := status - leastStatus
	return i >= 0 && status <= mostStatus && a.statuses[i/64]>>(i%64)&1 != 0
}

// same says whether two limits charge the same answers, or both all requests.
func (a *Answers) same(other *Answers) bool {
	if a == nil || other == nil {
		return a == other
	}
	return *a == *other
}
