package reservation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"stint"
	"stint/limiter"
	"stint/rule"
)

// Errors of Settle. Any other error means that the store could not decide: the reservation may be settled
// again.
var (
	// ErrForged means that no node with this secret made the reservation.
	ErrForged = errors.New("no such reservation")

	// ErrLate means that the reservation was not settled in time. Its units stay charged.
	ErrLate = fmt.Errorf("the reservation is older than %v and was not settled: its units stay charged", stint.MaxReservation)

	// ErrStatus means that the status is not one of HTTP.
	ErrStatus = fmt.Errorf("not a status of HTTP: they go from %d to %d", rule.LeastStatus, rule.MostStatus)
)

// errAway is the cause when a failure policy answered for the store.
var errAway = errors.New("the store is away")

// Reservations makes and settles reservations. It is safe for concurrent use. The zero Reservations are not
// usable, see New.
type Reservations struct {
	limiter *limiter.Limiter
	secret  []byte // signs reservations
	now     func() time.Time
	claims  claims
}

// New returns the reservations of a limiter. All nodes that settle for each other need the same secret.
// Nil: a random one, so that reservations end with this value. now is the time by which reservations are
// too late; nil is time.Now.
func New(l *limiter.Limiter, secret *rule.KeySecret, now func() time.Time) *Reservations {
	r := &Reservations{limiter: l, secret: []byte(rand.Text()), now: now}
	if secret != nil {
		r.secret = secret.Derive("reservations")
	}
	if now == nil {
		r.now = time.Now
	}
	return r
}

// Outcome is what became of a reservation: the names of the limits that keep their units, and of those that
// gave them back.
type Outcome struct {
	Charged   []string `json:"charged"`
	GivenBack []string `json:"given_back"`
}

// Issue returns the reservation of a verdict whose request had Answers; "" if the request is denied. The
// verdict must not be settled or undone by itself after that. A limit that decided without the store, by
// its failure policy, is not part of it.
func (r *Reservations) Issue(v *limiter.Verdict) string {
	if !v.Allowed {
		return ""
	}
	id := make([]byte, idLen)
	_, _ = rand.Read(id) // it never fails
	n := note{id: string(id), made: r.now(), domain: v.Domain}
	v.EachReserved(func(one *rule.Rule, t *stint.Take, d *stint.Decision) {
		if !d.Degraded {
			n.takes = append(n.takes, reserved{t.Terms().Rule, one.OfPlan, t.Key, t.Place(), t.Charged(d), d.At, d.ResetAfter, d.Own, d.Spent, t.Handling.Meter})
		}
	})
	return r.seal(&n)
}

// Settle ends a reservation with the status of the response. Limits that count this status keep their
// units, and the others give back exactly what the request took. If the reservation is already settled,
// nothing changes, and the outcome is the first one. A limit that has left the rules keeps its units.
func (r *Reservations) Settle(ctx context.Context, text string, status int) (Outcome, error) {
	if status < rule.LeastStatus || status > rule.MostStatus {
		return Outcome{}, ErrStatus
	}
	n, ok := r.open(text)
	if !ok {
		return Outcome{}, ErrForged
	}
	s := settlement{note: n, rules: r.rulesOf(n), claims: &r.claims, now: r.now()}
	late := s.now.Sub(n.made) > stint.MaxReservation
	if len(n.takes) == 0 {
		if late {
			return Outcome{}, ErrLate
		}
		return s.outcome(status), nil
	}
	first, err := s.settle(ctx, r.limiter.Store(), status, late)
	if err != nil {
		return Outcome{}, err
	}
	return s.outcome(first), nil
}

// rulesOf returns the rule of each take, for a limit of a plan that of the plan; nil for one that has left the rules.
func (r *Reservations) rulesOf(n *note) []*rule.Rule {
	of := make([]*rule.Rule, len(n.takes))
	match := func(one *rule.Rule) {
		for i := range n.takes {
			if one.Terms != nil && one.Terms.Domain == n.domain && one.Terms.Rule == n.takes[i].rule && one.OfPlan == n.takes[i].plan && one.Answers != nil {
				of[i] = one
			}
		}
	}
	if table := r.limiter.Table(); table != nil {
		for _, one := range table.All() {
			match(one)
			if one.Candidate != nil {
				match(one.Candidate)
			}
		}
	}
	return of
}

// settlement is a reservation that is being settled.
type settlement struct {
	*note
	rules  []*rule.Rule
	claims *claims // of this process
	now    time.Time
}

// outcome returns what becomes of the reservation with a status.
func (s *settlement) outcome(status int) Outcome {
	o := Outcome{Charged: []string{}, GivenBack: []string{}}
	for i, one := range s.rules {
		switch {
		case one != nil && one.Terms.Candidate: // its answers have no effect
		case one == nil || one.Answers.Charges(status):
			o.Charged = append(o.Charged, s.takes[i].rule)
		default:
			o.GivenBack = append(o.GivenBack, s.takes[i].rule)
		}
	}
	return o
}

// settle settles the reservation, unless it is settled already, and returns the first status. What an
// earlier try could not give back it gives back now.
func (s *settlement) settle(ctx context.Context, store stint.Store, status int, late bool) (first int, err error) {
	together, apart := s.effects(status)
	own := s.claims.take(s.id)
	claiming := own.units == 0 && len(apart) > 0 && !late
	if claiming {
		own.units = newClaim()
	}
	call := stint.Call{Takes: []stint.Take{s.record(status, late)}}
	if s.apart() {
		progress := s.progress(0)
		if claiming {
			progress.Cost = own.units
		}
		call.Takes = append(call.Takes, progress)
	}
	if !late {
		call.Takes = append(call.Takes, together...)
	}
	if err := decide(ctx, store, &call); err != nil {
		if own.units > 0 {
			s.claims.keep(s.id, own, s.now)
		}
		return 0, err
	}
	first = status
	d := &call.Results[0]
	switch used := d.Limit - d.Remaining; {
	case late && used == 0:
		return 0, ErrLate
	case late, !d.Allowed:
		first = int(used) - recordBase
		if _, apart = s.effects(first); claiming { // the claim was denied with the record
			own = claim{}
		}
	}
	if len(apart) == 0 {
		return first, nil
	}
	progress := &call.Results[1]
	return first, s.giveBackApart(ctx, store, apart, own, progress.Limit-progress.Remaining)
}

// apart reports whether this process may decide any limit of the reservation by itself.
func (s *settlement) apart() bool {
	return slices.ContainsFunc(s.rules, func(one *rule.Rule) bool { return one != nil && decidesApart(one.Terms.Coordination) })
}

// decidesApart reports whether the takes of a coordination are decided by this process.
func decidesApart(c stint.Coordination) bool { return c == stint.Eventual || c == stint.Gossip }

// decide passes a call to the store. An answer by a failure policy is an error.
func decide(ctx context.Context, store stint.Store, call *stint.Call) error {
	if err := store.Decide(ctx, call); err != nil {
		return fmt.Errorf("settling a reservation: %w", err)
	}
	for i := range call.Results {
		if call.Results[i].Degraded {
			return fmt.Errorf("settling a reservation: %w", errAway)
		}
	}
	return nil
}

// effects returns the takes that end the reservation with a status: those that the store decides together
// with the record, and those of limits that this process decides, which follow it.
func (s *settlement) effects(status int) (together []stint.Take, apart []apartTake) {
	done := map[string]*stint.Take{} // takes of one key and time are one reservation
	together, apart = make([]stint.Take, 0, len(s.rules)), make([]apartTake, 0, len(s.rules))
	for i, one := range s.rules {
		if one == nil {
			continue
		}
		t := &s.takes[i]
		take := stint.Take{
			Key: t.key, Limit: one.Stored, Cost: t.cost, Op: stint.Refund, Undo: &stint.Decision{Allowed: true, At: t.at, ResetAfter: t.reset, Own: t.own, Spent: t.spent},
			Handling: &stint.Handling{Terms: one.Terms, Place: t.place, Meter: t.meter, Live: true},
		}
		if one.Answers.Charges(status) {
			if !one.Stored.ForStores().Reserves() {
				continue
			}
			take.Op = stint.Settle
		}
		id := string(t.key) + "\x00" + one.Stored.Algorithm().String()
		if same := done[id]; same != nil {
			same.Cost += t.cost
			same.Undo.Spent += t.spent
			continue
		}
		if decidesApart(take.Coordination()) {
			apart = append(apart, apartTake{i, take})
			done[id] = &apart[len(apart)-1].take
			continue
		}
		together = append(together, take)
		done[id] = &together[len(together)-1]
	}
	return together, apart
}

// apartTake ends what one take of the reservation took from a limit that this process decides.
type apartTake struct {
	at   int // its number in the reservation
	take stint.Take
}

// The record that a reservation is settled is a take of recordLimit, of the status and recordBase. No
// second one fits.
const recordBase = 1000

var recordLimit = stint.MustLimit(stint.Spec{
	Algorithm: stint.FixedWindow, FromFirst: true, Requests: recordBase + rule.MostStatus, Per: 2 * stint.MaxReservation,
})

// recordSpace is the first byte of the keys of records, see package limiter for the others.
const recordSpace = "s"

// record returns the take that records the settlement, or with look one that only looks for it. It is at
// the place of the first key.
func (s *settlement) record(status int, look bool) stint.Take {
	t := stint.Take{
		Key: stint.Key(recordSpace + s.id), Limit: recordLimit, Cost: uint32(recordBase + status),
		Handling: &stint.Handling{Place: s.takes[0].place, OnFailure: stint.Deny, Live: true},
	}
	if look {
		t.Cost = 0
	}
	return t
}
