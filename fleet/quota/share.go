package quota

import (
	"strings"
	"sync"

	"stint"
	"stint/internal/system"
)

// shards is the number of parts that the shares are divided into, each with its own lock.
const shards = 64

// share is this process's share of a key's limit.
type share struct {
	state stint.State
	rule  *rule
	place stint.Key

	// Remaining of the store's last decision, and the time at which the store's state is
	// untouched again.
	left  int64
	until stint.Instant // 0: the store never decided a take of the key
}

// shard holds a part of the shares.
type shard struct {
	mu     sync.Mutex // guards the fields below
	shares map[stint.Key]*share
	latest system.Latest // the latest time of a decision
	empty  stint.Instant // when unknown shares were used up; the later of this and rule.empty counts
}

// findLocked returns the share of a key. It makes one for an unknown key, used up at the time of
// shard.empty and rule.empty.
func (s *shard) findLocked(r *rule, key stint.Key, now stint.Instant) (p *share, known bool) {
	if p := s.shares[key]; p != nil {
		return p, true
	}
	p = &share{rule: r}
	empty := max(s.empty, r.empty)
	r.own.Force(&p.state, empty, uint64(r.own.Capacity()))
	if r.own.Untouched(&p.state, now) {
		p.state = stint.State{}
	}
	return p, false
}

// addLocked adds the share of a key, as one at that place. If there are too many, it removes the
// untouched ones. If that does not help, it removes all, and they count as used up.
func (s *shard) addLocked(p *share, key, place stint.Key, most int, now stint.Instant) {
	if len(s.shares) >= most {
		if s.sweepLocked(now); len(s.shares) > most/4*3 {
			clear(s.shares)
			s.empty = now
		}
	}
	p.place = stint.Key(strings.Clone(string(place)))
	s.shares[stint.Key(strings.Clone(string(key)))] = p
}

// sweepLocked removes untouched shares.
func (s *shard) sweepLocked(now stint.Instant) {
	for key, p := range s.shares {
		if p.rule.own == nil || p.rule.own.Untouched(&p.state, now) {
			delete(s.shares, key)
		}
	}
}

// storeRemaining estimates the units left at the store.
func (p *share) storeRemaining(t *stint.Take, now stint.Instant) int64 {
	if p.until > now {
		return p.left
	}
	return p.rule.stored(t).Capacity()
}

// show fills in the decision of a take that passed, or of a peek, with the figures of the share.
func (p *share) show(t *stint.Take, now stint.Instant, d *stint.Decision) {
	*d = p.rule.own.Test(&p.state, now, 0)
	d.Own, d.Limit = true, t.Limit.Capacity()
	d.Remaining = min(d.Limit, d.Remaining+p.storeRemaining(t, now))
}
