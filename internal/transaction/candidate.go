package transaction

import (
	"context"
	"errors"
	"slices"

	"stint"
)

// This file decides candidates: takes that try other numbers of a limit without effect, see
// [stint.Handling]. A candidate of a take that other takes are decided as one with depends on
// these: it is charged only if all of them pass, whatever the take it stands for gets. A store that
// decides all takes of a call decides such candidates last, and asks DeniedBeside. A layer that
// divides a call decides it by Apart.

// Depends reports whether the call has a candidate whose charge depends on other takes.
func Depends(call *stint.Call) bool {
	depends, whole := false, false
	for i := range call.Takes {
		t := &call.Takes[i]
		whole = whole || !t.Independent
		depends = depends || t.InsteadOf() > 0
	}
	return depends && whole
}

// DeniedBeside reports whether take i is a candidate that is not charged, because a take other than
// the one it stands for denies. The results of all takes that are not Independent must be known.
func DeniedBeside(call *stint.Call, i int) bool {
	t := &call.Takes[i]
	of := int(t.InsteadOf())
	if of == 0 || !t.Op.Asks() || of > len(call.Takes) {
		return false
	}
	own := IDOf(&call.Takes[of-1])
	for j := 0; j < len(call.Takes); j += 1 + int(call.Takes[j].Borrows) {
		if o := &call.Takes[j]; !o.Independent && o.Op.Asks() && !call.Results[j].Allowed && IDOf(o) != own {
			return true
		}
	}
	return false
}

// Uncharged turns the answer to a peek, or to a take of an unlimited limit, into that to a candidate
// that is not charged.
func Uncharged(t *stint.Take, d *stint.Decision) {
	d.Allowed, d.Charged = fits(t.Limit, d, uint64(DeniedCost(t))), 0
}

// AnswerCandidates corrects the answers to candidates that were not charged.
func AnswerCandidates(c *stint.Call) {
	for i := range c.Takes {
		if DeniedBeside(c, i) {
			Uncharged(&c.Takes[i], &c.Results[i])
		}
	}
}

// Apart decides a call that decide would divide: first its takes without the candidates, then the
// candidates. An error about the candidates fails only these.
func Apart(ctx context.Context, call *stint.Call, decide func(context.Context, *stint.Call) error) error {
	var first, last parted
	for i := range call.Takes {
		part := &first
		if call.Takes[i].Candidate() {
			part = &last
		}
		part.of = append(part.of, i)
		part.Takes = append(part.Takes, call.Takes[i])
	}
	call.SizeResults()
	first.At, last.At = call.At, call.At
	err := decide(ctx, &first.Call)
	undecodable := Undecodable(err)
	if err != nil && undecodable == nil {
		return Renumber(err, first.of)
	}
	first.answer(call, undecodable)
	var beside []bool
	for n, i := range last.of {
		denied := DeniedBeside(call, i) || call.Takes[i].InsteadOf() > 0 && undecodable != nil
		if beside = append(beside, denied); denied {
			Peek(&last.Takes[n])
		}
	}
	tried := decide(ctx, &last.Call)
	corrupt := Undecodable(tried)
	last.answer(call, corrupt)
	for n, i := range last.of {
		switch {
		case tried != nil && !Decided(&last.Call, corrupt, n) || tried != nil && corrupt == nil:
			call.Results[i] = Untried(call.At)
		case beside[n]:
			Uncharged(&call.Takes[i], &call.Results[i])
		}
	}
	return Renumber(err, first.of)
}

// parted is a part of a call, with the index of each take in the whole call.
type parted struct {
	stint.Call
	of []int
}

// answer writes the results of the part into the whole call.
func (p *parted) answer(call *stint.Call, corrupt *stint.CorruptState) {
	for n, i := range p.of {
		if n < len(p.Results) && Decided(&p.Call, corrupt, n) {
			call.Results[i] = p.Results[n]
		}
	}
}

// Untried returns the decision about a candidate that no store decided.
func Untried(at stint.Instant) stint.Decision {
	return stint.Decision{Allowed: true, Degraded: true, Limit: stint.NoLimit, Remaining: stint.NoLimit, At: at}
}

// OnlyCandidates returns nil for an error that is about candidates alone, after it has answered them as
// untried. It returns all other errors unchanged.
func OnlyCandidates(call *stint.Call, err error) error {
	corrupt, ok := errors.AsType[*stint.CorruptState](err)
	if !ok || errors.Is(err, stint.ErrUnknown) || len(corrupt.Takes) == 0 {
		return err
	}
	other := func(i int) bool { return i < 0 || i >= len(call.Takes) || !call.Takes[i].Candidate() }
	if slices.ContainsFunc(corrupt.Takes, other) {
		return err
	}
	for _, i := range corrupt.Takes {
		call.Results[i] = Untried(call.At)
	}
	return nil
}
