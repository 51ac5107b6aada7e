package sim

import (
	"slices"
	"time"

	"stint"
)

// store is a server and its replica.
type store struct {
	ledger       Ledger
	states       map[stint.Key]*stint.State
	epoch        stint.Epoch
	server       int // number of the server that wrote the epoch
	runs         int // number of the server that runs
	newEpochs    int // epochs started by nodes that knew none before
	ahead        time.Duration
	awayUntil    time.Duration               // the store does not answer until then
	garbledUntil map[stint.Key]time.Duration // it cannot read these states until then
	records      map[stint.Key]*record       // takes that it decided itself, in modes in which nodes decide too
	history      []writtenState              // recent writes, which a replica may not have
}

// writtenState is a state before a write.
type writtenState struct {
	at    time.Duration
	key   stint.Key
	was   stint.State
	epoch stint.Epoch
}

// maxLag is how far a replica may lag behind.
const maxLag = 200 * time.Millisecond

func newStore(o *Options) *store {
	s := &store{ledger: o.Ledger, states: map[stint.Key]*stint.State{}, records: map[stint.Key]*record{}, garbledUntil: map[stint.Key]time.Duration{}}
	if s.ledger == nil {
		s.ledger = Exact
	}
	return s
}

// undecodable returns the takes of a message whose states the store cannot read.
func (s *store) undecodable(l *message, now time.Duration) (takes []int) {
	for i := range l.call.Takes {
		if s.garbledUntil[l.call.Takes[i].Key] > now {
			takes = append(takes, i)
		}
	}
	return takes
}

// decide decides a message, all or none except for independent takes. A take whose state cannot
// be read is denied, as by a guard around the store, unless its policy is to fail.
func (s *store) decide(l *message, now time.Duration) {
	at := began.Add(now + s.ahead)
	if l.call.At != 0 {
		at = l.call.At
	}
	undecodable := s.undecodable(l, now)
	if policy, _ := l.call.Takes[0].OnFailure(); policy == stint.Fail && len(undecodable) > 0 {
		l.undecodable = undecodable
		return
	}
	for i := range l.call.Takes {
		if loan := l.call.Takes[i].Loan(); loan != nil && !s.unnoticed(&l.call, at) {
			s.updateEpoch(l, loan, at)
		}
	}
	l.call.Results = make([]stint.Decision, len(l.call.Takes))
	pass := true
	for i := range l.call.Takes {
		t, bad := &l.call.Takes[i], slices.Contains(undecodable, i)
		if !bad && !t.Independent && len(l.call.Takes) > 1 {
			l.call.Results[i] = s.test(t, at)
			pass = pass && l.call.Results[i].Allowed
		}
		pass = pass && (!bad || t.Independent)
	}
	for i := range l.call.Takes {
		t := &l.call.Takes[i]
		if slices.Contains(undecodable, i) {
			l.call.Results[i] = stint.Decision{Degraded: true}
			continue
		}
		st := s.state(t.Key)
		if !pass && !t.Independent && l.call.Results[i].Allowed {
			look := stint.Take{Limit: t.Limit, Handling: t.Handling}
			l.call.Results[i] = s.apply(&look, st, at)
			continue
		}
		s.remember(now, t.Key, st)
		l.call.Results[i] = s.apply(t, st, at)
	}
}

// apply executes the operation of a take.
func (s *store) apply(t *stint.Take, st *stint.State, at stint.Instant) stint.Decision {
	switch t.Op {
	case stint.Force:
		return t.Limit.Force(st, at, uint64(t.Cost))
	case stint.Refund:
		return t.Limit.Refund(st, at, uint64(t.Cost), t.Undo)
	}
	return s.ledger(t.Limit, st, at, uint64(t.Cost), t.Loan(), s.epoch)
}

// test decides a take and changes nothing.
func (s *store) test(t *stint.Take, at stint.Instant) stint.Decision {
	var st stint.State
	s.state(t.Key).CopyTo(&st)
	look := *t
	if a := t.Loan(); a != nil {
		look.Handling = &stint.Handling{Loan: new(*a)}
	}
	return s.apply(&look, &st, at)
}

// unnoticed reports whether the store decides a call without noticing that it lost data: a single take
// of a node without a lease, if it is denied anyway. So does one.lua of package redis.
func (s *store) unnoticed(call *stint.Call, at stint.Instant) bool {
	t := &call.Takes[0]
	return len(call.Takes) == 1 && t.Loan() != nil && t.Loan().Node == 0 && !s.test(t, at).Allowed
}

// updateEpoch starts a new epoch if the store lost data.
func (s *store) updateEpoch(l *message, a *stint.Loan, at stint.Instant) {
	known := a.Epoch
	if known == 0 {
		known = l.known
	}
	if next := nextEpoch(s.epoch, at, s.server == s.runs, known); next != s.epoch {
		s.epoch, s.server = next, s.runs
		if !next.Lost {
			s.newEpochs++
		}
	}
}

func (s *store) state(key stint.Key) *stint.State {
	st := s.states[key]
	if st == nil {
		st = new(stint.State)
		s.states[key] = st
	}
	return st
}

func (s *store) record(key stint.Key) *record {
	r := s.records[key]
	if r == nil {
		r = new(record)
		s.records[key] = r
	}
	return r
}

// remember stores a state before a write.
func (s *store) remember(now time.Duration, key stint.Key, st *stint.State) {
	for len(s.history) > 0 && s.history[0].at < now-maxLag {
		s.history = s.history[1:]
	}
	w := writtenState{at: now, key: key, epoch: s.epoch}
	st.CopyTo(&w.was)
	s.history = append(s.history, w)
}

// flush empties the store. It returns 1 if units were lent, for counting.
func (s *store) flush(now time.Duration) (lent int) {
	for _, st := range s.states {
		if units := st.Lent(began.Add(now + s.ahead)); units > 0 {
			lent = 1
		}
	}
	clear(s.states)
	s.epoch, s.history = stint.Epoch{}, nil
	return lent
}

// replace makes a replica take over that lacks the last writes. It returns 1 if there were any,
// for counting.
func (s *store) replace(now, behind time.Duration) (forgot int) {
	for len(s.history) > 0 {
		last := s.history[len(s.history)-1]
		if last.at < now-behind {
			break
		}
		last.was.CopyTo(s.state(last.key))
		s.history = s.history[:len(s.history)-1]
		forgot = 1
	}
	s.history = nil
	s.runs++
	return forgot
}
