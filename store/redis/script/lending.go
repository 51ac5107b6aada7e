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

// ReadEpoch parses an epoch, below 0 if it follows a loss; 0 for none, or a value that is no epoch.
func ReadEpoch(text string) (began stint.Instant) {
	var lost int
	if _, err := fmt.Sscan(text, &began, &lost); err != nil {
		return 0
	}
	if lost != 0 {
		return -began
	}
	return began
}

// LoanFields is how many numbers decide.lua answers for a loan.
const LoanFields = 7

// LoanNumbers returns a node's report and request about its lease, as lua/decide.lua and lua/lease.lua
// take it. known is the epoch that this store remembers.
func LoanNumbers(a *stint.Loan, known stint.Instant) []int64 {
	return []int64{
		int64(a.Node), int64(a.Seq), int64(a.Epoch), int64(a.Kept), int64(a.Home), int64(a.Want),
		Flag(a.KeptAfterLoss), int64(max(known, a.Epoch)),
	}
}

// ReadLoan reads the answer of decide.lua about a loan. It returns the epoch of the answer, below 0 if
// it follows a loss, and the address of the server's interpreter.
func ReadLoan(a *stint.Loan, n []int64) (began stint.Instant, process int64) {
	began = stint.Instant(n[5])
	a.Grant, a.Held = uint32(n[0]), uint32(n[1])
	a.Lease, a.Empty = Span(n[2]), Span(n[3])
	a.Recall, a.Began = n[4] == 1, max(began, -began)
	return began, n[6]
}
