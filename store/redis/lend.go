package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"stint"
	"stint/store/redis/connect"
)

// epochKey is the name of the epoch's key, after namespace and tag.
const epochKey = "epoch"

// loanFields is how many numbers script/lua/lend.lua answers for a loan.
const loanFields = 6

// writeLoan writes a node's report and request about its lease.
func (b *batch) writeLoan(a *stint.Loan, known stint.Instant) {
	b.number(int64(a.Node))
	b.number(int64(a.Seq))
	b.number(int64(a.Epoch))
	b.number(int64(a.Kept))
	b.number(int64(a.Home))
	b.number(int64(a.Want))
	if a.KeptAfterLoss {
		b.number(1)
	} else {
		b.number(0)
	}
	b.number(int64(max(known, a.Epoch)))
}

// readLoan reads the script's answer to writeLoan.
func readLoan(a *stint.Loan, n []int64) {
	a.Grant, a.Held = uint32(n[0]), uint32(n[1])
	a.Lease, a.Empty = span(n[2]), span(n[3])
	a.Recall, a.Began = n[4] == 1, stint.Instant(n[5])
}

// rememberEpochs stores the epochs that the servers answered. Only a store that remembers an
// earlier epoch can tell that a server was emptied.
func (s *Store) rememberEpochs(b *batch) {
	for i := range b.parts {
		if p := &b.parts[i]; p.loan != nil && p.loan.Began > 0 {
			s.epochs[p.partition].Store(int64(p.loan.Began))
		}
	}
}

// Part returns the partition of a Cluster in which the key of a take lies; 0 on one server.
func (s *Store) Part(t *stint.Take) int {
	return s.partition(t)
}

// Lending returns what is lent of a take's key at now, the oldest first, and the epoch in which it
// was lent: 0 if nothing ever was. It reads the state and changes nothing.
func (s *Store) Lending(ctx context.Context, t *stint.Take, now stint.Instant) (epoch stint.Instant, lent []stint.Lent, err error) {
	client, err := s.sideLink.Client(ctx)
	if err != nil {
		return 0, nil, connect.Explain("connect", err)
	}
	name, _ := s.name(t)
	text, err := client.Do(ctx, client.B().Get().Key(name).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, connect.Explain("look at what is lent", err)
	}
	epoch, lent = readLending(text)
	return epoch, t.Limit.ForStores().StillLent(lent, now), nil
}

// readLending parses the loans, which follow the tilde of a state: see script/lua/lend.lua.
func readLending(state string) (epoch stint.Instant, lent []stint.Lent) {
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
