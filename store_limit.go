package stint

import "time"

// StoreLimit is for authors of stores: a Limit as stores and the layers between nodes see it, with
// what they need beyond the decisions of [Limit]. It stands in this file and behind
// [Limit.ForStores], so that nobody else has to read past it. Its methods are those of the limit
// and cost nothing more. In a package of their own each would be a call through a variable, which
// moves the caller's State to the heap: Pack took 31 ns and 48 bytes so, instead of 2 ns and none.
type StoreLimit Limit

// ForStores returns the limit with the methods that stores need.
func (l *Limit) ForStores() *StoreLimit { return (*StoreLimit)(l) }

// Same reports whether two limits count alike, so that a state written under one can
// be read under the other as it stands.
func (l *StoreLimit) Same(other *Limit) bool { return (*Limit)(l).same(other) }

// Used returns how many units of the limit count as taken at now, begun ones of a bucket
// as whole: more than Capacity where there is debt.
func (l *StoreLimit) Used(st *State, now Instant) int64 { return (*Limit)(l).usedAt(st, now) }

// Window returns the start and end of the window of a fixed_window that counts at now. A state from the
// future counts as one of the present, also where a debit has left it as it was.
func (l *StoreLimit) Window(st *State, now Instant) (start, end Instant) {
	moved := State{T: st.T, N: st.N, Written: st.Written} // without loans, which present would move
	(*Limit)(l).present(&moved, now)
	from, to := (*Limit)(l).windowOf(&moved, int64(now))
	return Instant(from), Instant(to)
}

// Expiry returns the instant from which the state is that of an untouched key without loans; 0 if
// it is untouched already.
func (l *StoreLimit) Expiry(st *State) Instant { return (*Limit)(l).expiry(st) }

// Correct writes down what a state from the future means at now, before a take of a cost, whether
// that is denied or only looks: else who asks again and again would never see it pass. A cost that
// never fits changes nothing.
func (l *StoreLimit) Correct(st *State, now Instant, cost uint64) { (*Limit)(l).correct(st, now, cost) }

// DebitCapped debits cost units without asking, like Force, but into a debt of no more than
// Capacity units; the decision is Over where not all of them were. It is how a pool is
// debited by those who pass inside limits of their own.
func (l *StoreLimit) DebitCapped(st *State, now Instant, cost uint64) Decision {
	return (*Limit)(l).debitCapped(st, now, cost)
}

// Overdraws reports whether a denied take is debited all the same, see [Spec].
func (l *StoreLimit) Overdraws() bool { return l.spec.Overdraw }

// Reserves reports whether taken units stay reserved until they are settled, see [Spec].
func (l *StoreLimit) Reserves() bool { return l.spec.Reserve }

// A state as one word

// Packed reports whether nearly every state is one word of at most 52 bits, see Pack.
func (l *StoreLimit) Packed() bool { return l.packed }

// Pack returns the state of a packed limit as one word of at most 52 bits; 0 is an untouched key.
// For a state with the time of its last write, or a window that was moved to another time, it
// returns a larger number without further meaning.
func (l *StoreLimit) Pack(st *State) uint64 { return (*Limit)(l).pack(st) }

// Unpack returns the state that Pack wrote.
func (l *StoreLimit) Unpack(word uint64) State { return (*Limit)(l).unpack(word) }

// TakeWord is Take on the packed state: it answers into d and returns the new
// word, or one above 52 bits where the new state does not fit into a word. It is the hot
// path of an in-memory store.
func (l *StoreLimit) TakeWord(word uint64, now Instant, cost uint64, d *Decision) uint64 {
	return (*Limit)(l).takeWord(word, now, cost, d)
}

// Other numbers, and other clocks

// Reads reports whether the limit reads states of the other as they stand: a window or log of the
// same length, alignment and blocks, or a bucket that refills alike.
func (l *StoreLimit) Reads(other *Limit) bool { return (*Limit)(l).reads(other) }

// Migrate turns a state written under the limit old into one of l, with all that is used at now.
// Another algorithm starts fresh, and so does a limit of 0 requests.
func (l *StoreLimit) Migrate(st *State, old *Limit, now Instant) { (*Limit)(l).migrate(st, old, now) }

// WaitFor returns how long until cost units, at most Capacity, fit that do not at now, if a state of
// old stays as it is meanwhile and is carried over then.
func (l *StoreLimit) WaitFor(st *State, old *Limit, now Instant, cost uint64) time.Duration {
	return (*Limit)(l).waitFor(st, old, now, cost)
}

// Rebase converts a state that is right at from, by one clock, to the same state at to, by another
// clock: ages stay the same. Windows, blocks and steps that begin at multiples of time begin at
// those of the second clock, so units taken in the current one count in the current one. Loans are
// dropped.
func (l *StoreLimit) Rebase(st *State, from, to Instant) { (*Limit)(l).rebase(st, from, to) }

// Units that are lent to nodes

// Lends reports whether a store ever lends units of the limit. The limit must be leasable, and so
// large that half of the units that may be lent are enough for a loan (LeaseLeast).
func (l *StoreLimit) Lends() bool { return l.Leasable() && (*Limit)(l).most >= 2*LeasePart*LeaseLeast }

// Leasable reports whether units of the limit can be lent: of a token_bucket that refills
// steadily and a fixed_window, if they are large enough and no denied take changes them.
func (l *StoreLimit) Leasable() bool { return (*Limit)(l).leasable() }

// Report applies a node's report about its loan to a state, before any other operation. A state
// that is unknown in the epoch becomes one that may have been used. It does nothing for limits that
// cannot be lent.
func (l *StoreLimit) Report(st *State, now Instant, a *Loan, e Epoch) {
	(*Limit)(l).reportLoan(st, now, a, e)
}

// Lend lends what the loan asks for, after the take that came with it was decided as d.
func (l *StoreLimit) Lend(st *State, now Instant, a *Loan, cost uint64, d *Decision) {
	(*Limit)(l).lend(st, now, a, cost, d)
}

// Lending returns the loans of a state under the limit at now, the oldest first, and the epoch in
// which they were lent; 0 if there never was one.
func (l *StoreLimit) Lending(st *State, now Instant) (epoch Instant, lent []Lent) {
	return (*Limit)(l).lendingOf(st, now)
}

// StillLent removes from a list the loans that are empty, were written off by now, or have ended
// with their window.
func (l *StoreLimit) StillLent(list []Lent, now Instant) []Lent {
	return (*Limit)(l).stillLent(list, now)
}

// Nodes that decide by themselves

// Mergeable reports whether nodes can decide the limit by themselves and add up later what they
// took: a token_bucket that refills steadily, and a fixed_window at multiples of its length,
// if no denied take changes them. A window that carries its debt (see Spec.CarryDebt) then
// lets pass too much once, and one that does not may each time.
func (l *StoreLimit) Mergeable() bool { return (*Limit)(l).mergeable() }

// StateFromDecision returns the state of which a decision was made, by a store that counts the same limit:
// answered at any time, it decides as that would have. The limit must be Mergeable.
func (l *StoreLimit) StateFromDecision(d *Decision) State { return (*Limit)(l).stateFromDecision(d) }

// Freed returns how many whole units fewer count as taken at now in the state after than in
// the one before. The limit must be Mergeable.
func (l *StoreLimit) Freed(before, after *State, now Instant) int64 {
	return (*Limit)(l).freed(before, after, now)
}
