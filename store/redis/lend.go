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

// isLease reports whether lease.lua can decide all groups that are not done.
func (b *batch) isLease() bool {
	if len(b.groups) == 0 || len(b.parts) > maxTogether || b.only >= 0 || b.mode != modeDecide {
		return false
	}
	for i := range b.groups {
		g := &b.groups[i]
		p := &b.parts[g.first]
		if g.done {
			continue
		}
		if g.end-g.first > 1 || p.loan == nil || p.Quick == nil || p.op != stint.Ask || p.borrows > 0 || p.test || !p.Quick.Leases(p.Limit) {
			return false
		}
		if p.loan.Node == 0 && p.word != unread { // only the quick scripts know whether something is lent
			return false
		}
		b.epoch = p.keyPrefix + epochKey
	}
	return b.epoch != ""
}

// unread is the state that a quick script returns if it cannot decide the key, because something of
// it is lent or it cannot read it.
const unread = -1

// lease returns the take of a part for lease.lua.
func (p *part) lease() script.LeaseTake {
	return script.LeaseTake{Limit: p.Limit, Quick: p.Quick, Cost: p.cost, Loan: p.loan, Known: p.known}
}

// writeLease writes the keys and arguments of lease.lua.
func (b *batch) writeLease() {
	call := script.LeaseCall{Keys: b.keys[:0], Words: b.args[:0]}
	for i := range b.groups {
		if !b.groups[i].done {
			p := &b.parts[b.groups[i].first]
			call.Add(p.name, p.lease())
		}
	}
	b.keys, b.args = call.Keys, call.Finish()
	b.size = 2 * partBytes * len(b.keys)
}

// execLease runs lease.lua for a group of batches. It gives each waiter the beginning of the answer
// and the answers to its takes, or nothing if decide.lua must decide them all.
func execLease(ctx context.Context, client rueidis.Client, group []*waiter) error {
	first := group[0].batch
	keys, words := script.BeginLeases(first.at, first.spare())
	for _, w := range group {
		keys, words = append(keys, w.batch.keys...), script.JoinLeases(words, w.batch.args)
	}
	answers, err := connect.LeaseScript.Exec(ctx, client, append(keys, first.epoch), words).AsStrSlice()
	if err != nil || len(answers) == 0 {
		return err
	}
	if len(answers) != 1+len(keys) {
		return errReply
	}
	head, rest := answers[0], answers[1:]
	for _, w := range group {
		n := len(w.batch.keys)
		w.texts, rest = append([]string{head}, rest[:n]...), rest[n:]
	}
	return nil
}

// readLease reads the answers of lease.lua. decide.lua must decide the groups that are not done.
func (b *batch) readLease(texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	said, ok := script.ReadLeases(texts[0])
	if !ok {
		return errReply
	}
	next := texts[1:]
	for i := range b.groups {
		g := &b.groups[i]
		if g.done {
			continue
		}
		text := next[0]
		if next = next[1:]; text == "" {
			continue
		}
		p := &b.parts[g.first]
		take := p.lease()
		if p.result, ok = take.Read(&said, text); !ok {
			return errReply
		}
		p.began, p.process, g.done = said.Began, said.Process, true
	}
	return nil
}

// rememberEpochs stores the epochs that the servers answered. Only a store that remembers an
// earlier epoch can tell that a server was emptied. It also stores which keys have a value.
func (s *Store) rememberEpochs(b *batch) {
	for i := range b.parts {
		p := &b.parts[i]
		if p.began != 0 {
			s.epochs[p.partition].set(p.began, p.process)
		}
		if p.checks() && p.result.ResetAfter > 0 {
			s.recent.Mark(p.name, uptime())
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
	name, _ := s.name(t)
	epoch, lent, err = s.LentOf(ctx, name)
	return epoch, t.Limit.ForStores().StillLent(lent, now), err
}
