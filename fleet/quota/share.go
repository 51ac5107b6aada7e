package quota

import (
	"strings"
	"sync"

	"stint"
	"stint/internal/system"
)

// shards is how many locks the parts have.
const shards = 64

// share is what this process knows of its part of a key.
type share struct {
	state stint.State
	rule  *rule
	place stint.Key

	// What the store said of the rest when it was last asked, until it is as if untouched.
	left  int64
	until stint.Instant // 0: it was never asked
}

// shard is some of the parts.
type shard struct {
	mu     sync.Mutex // guards what follows
	shares map[stint.Key]*share
	latest system.Latest // time at which anything of a part was decided
	empty  stint.Instant // when a part that is not here was empty, if after its rule says so
}

// find returns the part of a key, a new one where nothing is known of it.
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

// addLocked adds the part of a take's key. Where there are too many, those that hold all
// they can go first; if that does not help all go, and count as empty.
func (s *shard) addLocked(p *share, t *stint.Take, most int, now stint.Instant) {
	if len(s.shares) >= most {
		if s.sweepLocked(now); len(s.shares) > most/4*3 {
			clear(s.shares)
			s.empty = now
		}
	}
	p.place = stint.Key(strings.Clone(string(t.Handling.Place)))
	s.shares[stint.Key(strings.Clone(string(t.Key)))] = p
}

// sweepLocked forgets parts of which nothing is used.
func (s *shard) sweepLocked(now stint.Instant) {
	for key, p := range s.shares {
		if p.rule.own == nil || p.rule.own.Untouched(&p.state, now) {
			delete(s.shares, key)
		}
	}
}

// storeRemaining returns how much the store may have left, as far as is known.
func (p *share) storeRemaining(now stint.Instant) int64 {
	if p.until > now {
		return p.left
	}
	return p.rule.store.Capacity()
}

// show answers a take that passed, or only looked, with the numbers of the part.
func (p *share) show(t *stint.Take, now stint.Instant, d *stint.Decision) {
	*d = p.rule.own.Test(&p.state, now, 0)
	d.Own, d.Limit = true, t.Limit.Capacity()
	d.Remaining = min(d.Limit, d.Remaining+p.storeRemaining(now))
}
