package redis

import "stint"

// loanFields is how many numbers lua/lend.lua answers about a loan.
const loanFields = 6

// writeLoan writes what a node has to tell.
func (b *batch) writeLoan(a *stint.Loan, known stint.Instant) {
	b.number(int64(a.Node))
	b.number(int64(a.Seq))
	b.number(int64(a.Epoch))
	b.number(int64(a.Kept))
	b.number(int64(a.Home))
	b.number(int64(a.Want))
	if a.AfterLoss {
		b.number(1)
	} else {
		b.number(0)
	}
	b.number(int64(max(known, a.Epoch)))
}

// readLoan reads what the script answers to that.
func readLoan(a *stint.Loan, n []int64) {
	a.Grant, a.Held = uint32(n[0]), uint32(n[1])
	a.Lease, a.Empty = span(n[2]), span(n[3])
	a.Recall, a.Began = n[4] == 1, stint.Instant(n[5])
}

// rememberEpochs notes in which epochs the server was: only who knew an earlier one can
// tell a server that was emptied.
func (s *Store) rememberEpochs(b *batch) {
	for i := range b.parts {
		if p := &b.parts[i]; p.loan != nil && p.loan.Began > 0 {
			s.epochs[p.partition].Store(int64(p.loan.Began))
		}
	}
}

// Part returns the partition of a Cluster in which the key of a take lies; 0 on one server.
func (s *Store) Part(t *stint.Take) int {
	_, partition := s.name(t)
	return partition
}
