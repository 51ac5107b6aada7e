package transaction

import (
	"stint"
	"stint/internal/limits"
)

// Decide tests and charges all parts, on the records that the caller has set. It reports whether
// the group passed. The same plan may be decided again on other records.
func (w *Plan[K]) Decide() bool {
	pass := true
	w.narrow(func(p *Part[K]) stint.Decision { return p.test(1) })
	for i := range w.Parts {
		if p := &w.Parts[i]; p.Take.Op.Asks() && !p.Source {
			p.Result = p.test(p.Cost)
			p.Fits = p.Result.Allowed
			pass = pass && p.Fits
		}
	}
	if len(w.debts) > 0 {
		pass = w.testSources()
	}
	for i := range w.Parts {
		p := &w.Parts[i]
		switch {
		case p.Book != nil:
			p.concludeGranted(pass)
		case p.Take.Metered():
			p.concludeMetered(pass)
		default:
			p.conclude(pass)
		}
		if p.Loan != nil {
			p.Record.Lend(p.Limit, p.At, p.Loan, p.Cost, &p.Result)
		}
	}
	if len(w.debts) > 0 && !pass {
		w.sooner()
	}
	return pass
}

// DecideUnlimited decides a group whose takes have no limits, at a time.
func (w *Plan[K]) DecideUnlimited(at stint.Instant) {
	for i := range w.Parts {
		w.Parts[i].Set(w.Parts[i].Limit, stint.State{}, at)
	}
	w.Decide()
}

// testSources tests the sources, and reports whether the group passes.
func (w *Plan[K]) testSources() bool {
	w.borrow()
	for i := range w.Parts {
		if p := &w.Parts[i]; p.Source {
			p.Result = p.Record.Test(p.Limit, p.At, p.Units())
			p.Fits = p.Result.Allowed
		}
	}
	return w.passes()
}

// conclude charges a part if the group passes, and sets its result.
func (p *Part[K]) conclude(pass bool) {
	p.Charged = false
	switch {
	case p.Over:
		p.Result = p.Record.Test(p.Limit, p.At, 0)
		p.Result.Over = pass
	case p.Source:
		p.chargeSource(pass)
	case p.Take.Op.Asks() && (pass || !p.Fits || p.Limit.ForStores().Overdraws()):
		p.Result, p.Charged = p.Record.Take(p.Limit, p.At, p.Cost), true
		p.charge()
	case pass:
		p.Result = p.Record.Apply(p.Take.Op, p.Limit, p.At, p.Cost, p.Take.Undo)
	default:
		p.Result = p.Record.Test(p.Limit, p.At, 0)
	}
}

// concludeMetered is conclude for a key with a history: it sets Change too.
func (p *Part[K]) concludeMetered(pass bool) {
	before := p.Record.Used(p.At)
	p.conclude(pass)
	p.Change = UseChange{}
	if !pass || p.Limit.Capacity() == 0 {
		return
	}
	switch op := p.Take.Op; {
	case op == stint.Refund:
		p.Change = p.Record.GivenBack(before, p.Cost, p.At)
	case p.Source:
		p.Change = p.Record.Charged(p.Limit, p.Units()+p.owed, p.At)
	case op == stint.Force, op.Asks() && p.Charged && p.Result.Allowed:
		p.Change = p.Record.Charged(p.Limit, p.Cost, p.At)
	}
}

// test tests whether a cost fits a part that is no source.
func (p *Part[K]) test(cost uint64) stint.Decision {
	if p.Book == nil {
		return p.Record.Test(p.Limit, p.At, cost)
	}
	f := p.funds()
	return f.Test(cost)
}

// funds returns what a part with a Book is charged to.
func (p *Part[K]) funds() limits.Funds {
	return limits.FundsOf(&p.Record, p.Book, p.Limit, p.Take.Handling.Meter, p.At)
}

// concludeGranted is concludeMetered for a take with grants.
func (p *Part[K]) concludeGranted(pass bool) {
	f := p.funds()
	p.Charged, p.Change = false, UseChange{}
	switch asks := p.Take.Op.Asks(); {
	case asks && (pass || !p.Fits):
		p.Result, p.Change = f.Take(p.Cost)
		p.Charged = true
		p.charge()
	case pass:
		p.Result, p.Change = f.Apply(p.Take.Op, p.Cost, p.Take.Undo)
	default:
		p.Result = f.Test(0)
	}
}

// chargeSource charges a source its own cost and what borrowers owe it.
func (p *Part[K]) chargeSource(pass bool) {
	switch {
	case !pass && p.Fits:
		p.Result = p.Record.Test(p.Limit, p.At, 0)
	case !pass || p.Units() > 0:
		p.Result, p.Charged = p.Record.Take(p.Limit, p.At, p.Units()), true
	}
	if pass && p.owed > 0 {
		p.Result = p.Record.DebitCapped(p.Limit, p.At, p.owed)
	}
}

// narrow sets the cost of all AskAtMost parts to one number: the most units that all of them can
// take, and 1 if one of them can take none. test tests whether 1 unit of a part passes.
func (w *Plan[K]) narrow(test func(*Part[K]) stint.Decision) {
	units := uint64(stint.MaxCost)
	for i := range w.Parts {
		if p := &w.Parts[i]; p.atMost() {
			d := test(p)
			units = min(units, d.AtMost(uint64(p.Take.Cost)))
		}
	}
	for i := range w.Parts {
		if p := &w.Parts[i]; p.atMost() {
			p.Cost = units
		}
	}
}

// atMost reports whether the part takes at most its cost.
func (p *Part[K]) atMost() bool { return p.Take.Op == stint.AskAtMost && p.Take.Cost > 0 }

// charge sets Charged of the result of an AskAtMost.
func (p *Part[K]) charge() {
	if p.atMost() {
		p.Result.Charge(p.Cost)
	}
}
