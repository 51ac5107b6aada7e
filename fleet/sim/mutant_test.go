package sim_test

import (
	"testing"

	"stint"
	"stint/fleet/lease"
	"stint/fleet/sim"
	"stint/internal/testkit"
)

// naive is a ledger with the usual mistake: it counts lent units as taken, and the bucket refills
// all the same.
func naive() sim.Ledger {
	lent := map[*stint.State]map[uint64]uint64{} // the last ask of each node
	return func(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, a *stint.Loan, e stint.Epoch) stint.Decision {
		a.Answer(e)
		d := limit.Take(st, now, cost)
		if lent[st] == nil {
			lent[st] = map[uint64]uint64{}
		}
		if last := lent[st][a.Node]; a.Node == 0 || a.Seq <= last {
			return d
		}
		lent[st][a.Node] = a.Seq
		if a.Home > 0 {
			limit.Refund(st, now, uint64(a.Home), nil)
		}
		most := uint64(limit.Capacity()) / stint.LeasePart
		if grant := min(uint64(a.Want), most, uint64(limit.Test(st, now, 0).Remaining)/4); grant >= 2 && d.Allowed {
			limit.Take(st, now, grant)
			a.Grant = uint32(grant)
		}
		a.Held, a.Lease = a.Kept, stint.LeaseTime
		return d
	}
}

// asks changes a node's message before the store's own ledger reads it, and the answer.
func asks(before, after func(st *stint.State, a *stint.Loan)) sim.Ledger {
	return func(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, a *stint.Loan, e stint.Epoch) stint.Decision {
		seq := a.Seq
		if before != nil {
			before(st, a)
		}
		d := sim.Exact(limit, st, now, cost, a, e)
		if after != nil {
			after(st, a)
		}
		a.Seq = seq
		return d
	}
}

// twice is a ledger that does not know a repeated ask by its number.
func twice() sim.Ledger {
	type who struct {
		st   *stint.State
		node uint64
	}
	last := map[who]struct{ seq, times uint64 }{}
	return asks(func(st *stint.State, a *stint.Loan) {
		l := last[who{st, a.Node}]
		switch {
		case a.Seq > l.seq:
			l.seq, l.times = a.Seq, 0
		case a.Seq == l.seq:
			l.times++
		}
		last[who{st, a.Node}] = l
		if a.Seq < l.seq {
			a.Seq = 0
			return
		}
		a.Seq = a.Seq*1000 + l.times
	}, nil)
}

// unnumbered is a ledger that takes each ask for the newest.
func unnumbered() sim.Ledger {
	n := uint64(0)
	return asks(func(_ *stint.State, a *stint.Loan) {
		n++
		a.Seq = n
	}, nil)
}

// early is a ledger that writes loans off before nodes have let them go.
func early() sim.Ledger {
	return asks(nil, func(_ *stint.State, a *stint.Loan) { a.Lease = 2 * a.Lease })
}

// forgetful is a store that does not know when it was emptied.
func forgetful() sim.Ledger {
	return func(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, a *stint.Loan, e stint.Epoch) stint.Decision {
		e.Lost = false
		return sim.Exact(limit, st, now, cost, a, e)
	}
}

// TestMutants: each typical mistake of leases is detected, in a few of the histories that the real
// code passes.
func TestMutants(t *testing.T) {
	ledger := func(make func() sim.Ledger) func(*sim.Options) {
		return func(o *sim.Options) { o.Ledger = make() }
	}
	for _, row := range []struct {
		name   string
		change func(*sim.Options)
	}{
		{"the bucket refills what is lent", ledger(naive)},
		{"loans are written off too early", ledger(early)},
		{"an emptied store begins full", ledger(forgetful)},
		{"a node does not look at the clock that goes on while it sleeps", func(o *sim.Options) {
			o.Reads = func(m lease.Moment) lease.Moment { return lease.Moment{Mono: m.Mono, Wall: 1} }
		}},
		{"a node does not look at the clock that nobody sets", func(o *sim.Options) {
			o.Reads = func(m lease.Moment) lease.Moment { return lease.Moment{Mono: m.Wall, Wall: m.Wall} }
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			caught := 0
			const n = 100
			for seed := range uint64(n) {
				if testing.Short() && caught > 0 {
					break
				}
				o := sim.AttackLeases(seed, 1000)
				row.change(&o)
				if res := sim.Run(o); res.Over > int64(res.UnseenLosses)*o.Limit.Capacity() {
					caught++
				}
			}
			if caught == 0 {
				t.Error("no history shows it")
			}
			t.Logf("%d of %d histories show it", caught, n)
		})
	}
}

// again counts how often a ledger changes anything by an ask that a node made before: the
// same one again, as of a node that had no answer, or one that comes late.
func again(ledger sim.Ledger, changed *int) sim.Ledger {
	type who struct {
		st   *stint.State
		node uint64
	}
	type when struct {
		seq    uint64
		window int64
	}
	last := map[who]when{}
	return func(limit *stint.Limit, st *stint.State, now stint.Instant, cost uint64, a *stint.Loan, e stint.Epoch) stint.Decision {
		by, asked := who{st, a.Node}, when{a.Seq, 0}
		if limit.Algorithm() == stint.FixedWindow { // with a window ends what was asked in it
			asked.window = int64(now) / limit.Spec().Per.Microseconds()
		}
		before := last[by]
		old := a.Node != 0 && cost == 0 && asked.seq <= before.seq && asked.window == before.window
		if !old {
			last[by] = asked
		}
		free := limit.Test(st, now, 0).Remaining
		lent := st.Lent(now)
		d := ledger(limit, st, now, cost, a, e)
		after := st.Lent(now)
		if old && (after > lent || limit.Test(st, now, 0).Remaining != free) {
			*changed++
		}
		return d
	}
}

// An ask that comes twice, or late, lends and debits nothing. No bound would show that: who
// debits twice lets pass less, not more.
func TestAsksAgain(t *testing.T) {
	testkit.OneGoroutine(t)
	n := uint64(20)
	if testing.Short() {
		n = 12
	}
	count := func(ledger func() sim.Ledger) (changed int) {
		for seed := range n {
			o := sim.RandomFaults(sim.Leased, seed, 1000, 0)
			if seed%2 == 0 {
				o = sim.AttackLeases(seed, 1000)
				o.Faults = nil
			}
			o.Network.Twice = 0.5
			o.Ledger = again(ledger(), &changed)
			sim.Run(o)
		}
		return changed
	}
	if n := count(func() sim.Ledger { return sim.Exact }); n > 0 {
		t.Errorf("%d asks changed something again", n)
	}
	for name, ledger := range map[string]func() sim.Ledger{"for another one": twice, "for the newest": unnumbered} {
		n := count(ledger)
		t.Logf("of a ledger that takes each ask %s %d changed something again", name, n)
		if n == 0 {
			t.Errorf("a ledger that takes each ask %s is not found out", name)
		}
	}
}
