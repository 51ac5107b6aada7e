package limiter

import (
	"context"
	"math"

	"stint"
	"stint/internal/limits"
	"stint/internal/transaction"
	"stint/rule"
)

// This file asks the candidates of limits: other numbers, or another algorithm, that a rule tries on the
// same requests without effect.
//
// A limit with a candidate adds a take to the call: of the same values and cost under a key of its own, at
// the place of the limit's key, in the rule's mode. The take is Independent. It is charged if it has room
// and no other enforced limit, or penalty, denies; what its own limit decides does not matter. So its state
// is what the limit's would be with its numbers. A limit that is itself decided apart (in shadow mode, in
// quota mode, or where the domain is not atomic) has a candidate that is decided apart too.
//
// A request is decided several times if it waits for a limit: each time gives the candidate its units back
// before the next one. A request that is stored gives them back too, since it is decided again when it is
// sent. Undo and Settle treat the candidate like its limit; where the limit denied, there will be no
// response, and what counts responses is charged at once.
//
// Nobody is denied by a candidate, or by its errors, and no answer shows it.

// candidateSpace begins the keys of candidates.
const candidateSpace = 'n'

// Candidate is the answer of the candidate of a limit.
type Candidate struct {
	// Of is the index in Verdict.Asked of its limit.
	Of int

	// Asked is what the limit would have answered with the candidate's numbers. Its Rule is
	// rule.Rule.Candidate, or a copy of it with the numbers of an override. If it is Degraded, no
	// store decided, and it says nothing.
	Asked

	// Beside means that another enforced limit or a penalty denied the request. Then the candidate was not
	// charged, and Allowed reports whether it had room.
	Beside bool

	take    int // index of its take in the call
	charged bool
}

// addCandidates adds takes for the candidates of the limits. They come after all others.
func (v *Verdict) addCandidates(req *Request) {
	takes := len(v.call.Takes)
	for n, i := range v.taken {
		if i < 0 || v.Asked[i].Rule == nil || v.Asked[i].Rule.Candidate == nil {
			continue
		}
		a, t := &v.Asked[i], v.call.Takes[n]
		c := Candidate{Of: i, Asked: Asked{Descriptor: a.Descriptor, Rule: a.Rule.Candidate, Cost: a.Cost, Decision: unmatched}, take: len(v.call.Takes)}
		t.Limit = c.Rule.Stored
		if c.Rule.Tally != nil {
			t.Limit, c.tallied = c.Rule.Tally, true
		}
		how := stint.Handling{Terms: c.Rule.Terms, OnFailure: stint.Allow, Live: c.Rule.Answers != nil, Candidate: true}
		if !t.Independent && t.Op.Asks() && v.joined(takes) > 1 {
			how.InsteadOf = uint32(n) + 1
		}
		t.Independent = true
		from := len(v.keys)
		entries := req.Descriptors[a.Descriptor].Entries
		v.keys = a.Rule.AppendCandidate(append(v.keys, candidateSpace), entries, v.secret)
		if same := v.sameCandidate(takes, v.keys[from:]); same >= 0 {
			v.keys = v.keys[:from]
			v.call.Takes[same].Cost = uint32(min(uint64(v.call.Takes[same].Cost)+uint64(t.Cost), stint.MaxCost))
			c.take = same
			v.Candidates = append(v.Candidates, c)
			continue
		}
		end := end{key: len(v.keys), how: how}
		if v.keys = a.Rule.AppendPlace(v.keys, entries); len(v.keys) == end.key {
			v.keys = a.Rule.AppendKeyed(append(v.keys, ruleSpace), entries, v.secret) // the place of the limit is its key
		}
		end.place = len(v.keys)
		v.ends = append(v.ends, end)
		v.call.Takes = append(v.call.Takes, t)
		v.Candidates = append(v.Candidates, c)
	}
}

// joined returns how many of the first takes of the call are decided as one.
func (v *Verdict) joined(first int) (n int) {
	for i := range first {
		if !v.call.Takes[i].Independent {
			n++
		}
	}
	return n
}

// sameCandidate returns the index of the candidate's take that has a key, below 0 if there is none. Takes of
// one key are decided as one, with the sum of their costs.
func (v *Verdict) sameCandidate(first int, key []byte) int {
	for i := first; i < len(v.ends); i++ {
		if string(v.keys[v.ends[i-1].place:v.ends[i].key]) == string(key) {
			return i
		}
	}
	return -1
}

// readCandidates reads the store's answers about candidates.
func (v *Verdict) readCandidates() {
	for k := range v.Candidates {
		c := &v.Candidates[k]
		t := &v.call.Takes[c.take]
		c.Decision = v.call.Results[c.take]
		c.Beside = transaction.DeniedBeside(&v.call, c.take)
		first := k == 0 || v.Candidates[k-1].take < c.take // a take of several is given back once
		c.charged = first && t.Op.Asks() && t.Cost > 0 && c.Allowed && !c.Beside && !c.Degraded
		if c.Charged > 0 {
			c.Cost = c.Charged
		}
		if c.tallied {
			limits.ApplyTally(&c.Decision, t, c.Cost, v.denyPeeks)
		}
		if c.Rule.Soft > 0 && !c.Degraded {
			c.soften(!c.Beside)
		}
		v.reserved = v.reserved || c.charged && c.Rule.Answers != nil && v.passed()
	}
}

// bound returns how many units a candidate of at most its cost could have been charged beside the other
// limits.
func (v *Verdict) bound(c *Candidate) int64 {
	own := int(v.ends[c.take].how.InsteadOf) - 1
	most := int64(math.MaxInt64)
	for i := range v.taken {
		t, d := &v.call.Takes[i], &v.call.Results[i]
		if i != own && own >= 0 && !t.Independent && t.Op == stint.AskAtMost && t.Cost > 0 {
			most = min(most, d.Remaining+int64(d.Charged))
		}
	}
	return most
}

// settleCandidates corrects what candidates were charged: those of at most their cost for the bound of other
// limits, and those that count responses of a request that is denied and gets none. An error leaves them as
// they are.
func (l *Limiter) settleCandidates(ctx context.Context, v *Verdict) {
	if len(v.Candidates) == 0 {
		return
	}
	v.after.At, v.after.Takes = v.call.At, v.after.Takes[:0]
	denied := !v.passed()
	for k := range v.Candidates {
		c := &v.Candidates[k]
		t := v.call.Takes[c.take]
		if !c.charged {
			continue
		}
		d := &v.call.Results[c.take]
		switch most := v.bound(c); {
		case t.Op == stint.AskAtMost && int64(d.Charged) > most:
			v.after.Takes = append(v.after.Takes, transaction.Refund(t, uint64(int64(d.Charged)-most), d))
			d.Charged, c.Cost = uint32(most), uint32(most)
			c.charged = most > 0
		case denied && c.Rule.Answers != nil && c.Rule.Stored.ForStores().Reserves():
			t.Op, t.Undo = stint.Settle, d
			v.after.Takes = append(v.after.Takes, t)
		}
	}
	if len(v.after.Takes) > 0 {
		_ = transaction.DecideAfter(ctx, l.store, &v.after)
	}
}

// chargedCandidates calls yield for each candidate that was charged, like charged.
func (v *Verdict) chargedCandidates(yield func(i int, r *rule.Rule, d *stint.Decision)) {
	for k := range v.Candidates {
		if c := &v.Candidates[k]; c.charged {
			yield(c.take, c.Rule, &v.call.Results[c.take])
		}
	}
}

// besideDebt reports whether the charge of take i, of a candidate, is given back if denyDebts denied: only
// if another limit than its own denies by that.
func (v *Verdict) besideDebt(i int) bool {
	for k := range v.Candidates {
		c := &v.Candidates[k]
		if c.take != i || v.call.Takes[i].Limit.ForStores().Overdraws() {
			continue
		}
		for n, asked := range v.taken {
			if asked >= 0 && asked != c.Of && !v.call.Takes[n].Independent && !v.Asked[asked].Allowed {
				return true
			}
		}
	}
	return false
}

// endCandidates ends the candidates of a pending request that is denied, or stored to be decided again. A
// stored one gives back what candidates were charged. For a denied one that waited the candidates are asked
// again, since Undo gave their units back when it began to wait.
func (l *Limiter) endCandidates(ctx context.Context, v *Verdict, stored bool) {
	if len(v.Candidates) == 0 {
		return
	}
	if v.Held { // nothing was asked
		v.Candidates = v.Candidates[:0]
		return
	}
	v.after.At, v.after.Takes = v.call.At, v.after.Takes[:0]
	for k := range v.Candidates {
		c := &v.Candidates[k]
		again := v.call.Takes[c.take]
		switch {
		case !c.charged:
		case stored && !v.undone:
			v.addAfter(c.take, stint.Refund, &v.call.Results[c.take])
		case !stored && v.undone:
			v.after.Takes = append(v.after.Takes, again)
		}
	}
	if len(v.after.Takes) == 0 {
		return
	}
	_ = transaction.DecideAfter(ctx, l.store, &v.after)
}
