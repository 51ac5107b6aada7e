package redis

import (
	"context"

	"github.com/redis/rueidis"

	"stint"
	"stint/store/redis/connect"
	"stint/store/redis/script"
)

// epochKey and processKey are the names of the keys that script/lua/lend.lua describes, after
// namespace and tag.
const (
	epochKey   = "epoch"
	processKey = "process"
)

// loanFields is how many numbers script/lua/lend.lua answers for a loan.
const loanFields = 7

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

// readLoan reads the script's answer to writeLoan. It returns the epoch of the answer, below 0 if
// it follows a loss, and the address of the server's interpreter.
func readLoan(a *stint.Loan, n []int64) (began stint.Instant, process int64) {
	began = stint.Instant(n[5])
	a.Grant, a.Held = uint32(n[0]), uint32(n[1])
	a.Lease, a.Empty = span(n[2]), span(n[3])
	a.Recall, a.Began = n[4] == 1, max(began, -began)
	return began, n[6]
}

// rememberEpochs stores the epochs that the servers answered. Only a store that remembers an
// earlier epoch can tell that a server was emptied.
func (s *Store) rememberEpochs(b *batch) {
	for i := range b.parts {
		if p := &b.parts[i]; p.began != 0 {
			s.epochs[p.partition].set(p.began, p.process)
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
	epoch, lent = script.ReadLending(text)
	return epoch, t.Limit.ForStores().StillLent(lent, now), nil
}
