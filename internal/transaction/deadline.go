package transaction

import "time"

// answerTimeout is how long calls that are sent together may take if one of them has no deadline.
const answerTimeout = 10 * time.Second

// LatestDeadline returns until when a store waits for the answer to n calls that it sends together: the latest
// of their deadlines, as each caller waits for itself. until returns that of call i, the zero time for none.
func LatestDeadline(n int, until func(i int) time.Time) time.Time {
	last := time.Time{}
	for i := range n {
		t := until(i)
		if t.IsZero() {
			return time.Now().Add(answerTimeout)
		}
		if t.After(last) {
			last = t
		}
	}
	return last
}
