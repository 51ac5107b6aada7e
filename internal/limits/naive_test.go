package limits

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
)

var (
	grantSeed      = flag.Uint64("limits.seed", 0, "seed of the random histories of grants, as a failure printed it; 0: another one each run")
	grantHistories = flag.Int("limits.histories", 300, "how many random histories of grants")
)

// naive counts grants and a rollover as their definition says: unit by unit, and period by period from the
// first one on.
type naive struct {
	limit    int64
	per      stint.Instant
	rollover int64
	grants   []Grant
	used     map[string]int64
	periods  map[stint.Instant]naivePeriod // by number, those with a charge
}

// naivePeriod is what was used in a period.
type naivePeriod struct{ own, carry int64 }

// naiveUnit is where a unit came from.
type naiveUnit struct {
	grant  string // "" for the limit itself and the carry
	carry  bool
	period stint.Instant
}

func (n *naive) clone() *naive {
	c := *n
	c.used, c.periods = maps.Clone(n.used), maps.Clone(n.periods)
	return &c
}

// carried returns with how many units a period begins.
func (n *naive) carried(period stint.Instant) (units int64) {
	if len(n.periods) == 0 {
		return 0
	}
	charged := slices.Min(slices.Collect(maps.Keys(n.periods)))
	for p := charged; p < period; p++ {
		if there, ok := n.periods[p]; ok {
			charged = p
			units = min(n.rollover, units-there.carry+n.limit-there.own)
		} else {
			units = min(n.rollover, units+n.limit)
		}
		if p+1-charged > MaxIdle {
			later, ok := n.next(p + 1)
			if !ok {
				return 0
			}
			p, charged, units = later-1, later, 0
		}
	}
	return units
}

// next returns the first period from one on that was charged.
func (n *naive) next(from stint.Instant) (first stint.Instant, ok bool) {
	for p := range n.periods {
		if p >= from && (!ok || p < first) {
			first, ok = p, true
		}
	}
	return first, ok
}

// unit takes one unit.
func (n *naive) unit(now stint.Instant) (u naiveUnit, ok bool) {
	period := now / n.per
	there := n.periods[period]
	if there.carry < n.carried(period) {
		there.carry++
		n.periods[period] = there
		return naiveUnit{carry: true, period: period}, true
	}
	grant := func(before bool) bool {
		for _, g := range n.grants {
			if g.Priority < 100 == before && g.From <= now && now < g.Until && n.used[g.ID] < g.Units {
				n.used[g.ID]++
				n.periods[period] = there // it counts as used
				u = naiveUnit{grant: g.ID}
				return true
			}
		}
		return false
	}
	switch {
	case grant(true):
		return u, true
	case there.own < n.limit:
		there.own++
		n.periods[period] = there
		return naiveUnit{period: period}, true
	}
	return u, grant(false)
}

// take takes a cost, all or nothing.
func (n *naive) take(now stint.Instant, cost int) (units []naiveUnit, ok bool) {
	tried := n.clone()
	for range cost {
		u, ok := tried.unit(now)
		if !ok {
			return nil, false
		}
		units = append(units, u)
	}
	*n = *tried
	return units, true
}

// back gives units back.
func (n *naive) back(now stint.Instant, units []naiveUnit) {
	for _, u := range units {
		there := n.periods[u.period]
		switch {
		case u.grant != "":
			i := slices.IndexFunc(n.grants, func(g Grant) bool { return g.ID == u.grant })
			if now < n.grants[i].Until {
				n.used[u.grant]--
			}
			continue
		case u.period != now/n.per:
			continue
		case u.carry:
			there.carry--
		default:
			there.own--
		}
		n.periods[u.period] = there
	}
}

// remaining returns how many units are left.
func (n *naive) remaining(now stint.Instant) (units int64) {
	for tried := n.clone(); ; units++ {
		if _, ok := tried.unit(now); !ok {
			return units
		}
	}
}

// retry returns how long until a cost fits that does not fit now: until the first change of what is left at
// which it does.
func (n *naive) retry(now stint.Instant, cost int) time.Duration {
	var times []stint.Instant
	for p := now/n.per + 1; p < now/n.per+50; p++ {
		times = append(times, p*n.per)
	}
	for _, g := range n.grants {
		times = append(times, g.From)
	}
	slices.Sort(times)
	for _, at := range times {
		if at > now && n.remaining(at) >= int64(cost) {
			return at.Sub(now)
		}
	}
	return stint.Never
}

// TestGrantsNaive compares decisions with the naive count in random histories: what passes, what remains,
// when to retry, and what a refund gives back.
func TestGrantsNaive(t *testing.T) {
	seed := *grantSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	r := rand.New(rand.NewPCG(seed, 0))
	for range *grantHistories {
		if problem := naiveHistory(r); problem != "" {
			t.Fatalf("%s\nrepeat with -args -limits.seed=%d", problem, seed)
		}
	}
}

// naiveTake is a take that can be given back.
type naiveTake struct {
	units []naiveUnit
	d     stint.Decision
}

// naiveHistory compares one history, and returns where it differs; "" if it does not.
func naiveHistory(r *rand.Rand) string {
	per := time.Hour
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: uint32(r.IntN(12)), Per: per})
	n := &naive{limit: limit.Capacity(), per: stint.Instant(per.Microseconds()), rollover: []int64{0, 4, 9, 30}[r.IntN(4)], used: map[string]int64{}, periods: map[stint.Instant]naivePeriod{}}
	now, text := hours(0), strings.Builder{}
	for i := range r.IntN(5) {
		from := now + stint.Instant(r.Int64N(40)-10)*n.per/2
		n.grants = append(n.grants, Grant{fmt.Sprint("g", i), r.Int64N(12), []uint8{1, 99, 100, 200}[r.IntN(4)], from, from + stint.Instant(r.Int64N(60))*n.per/2})
	}
	SortGrants(n.grants)
	fmt.Fprintf(&text, "limit %d, rollover %d, grants %+v\n", n.limit, n.rollover, n.grants)
	take := stint.Take{Key: "k", Limit: limit, Handling: &stint.Handling{Meter: &Meter{Rollover: n.rollover, Grants: n.grants}}}
	var record Record
	var book Book
	var taken []naiveTake
	for range 40 {
		now += stint.Instant([]int64{0, 0, 1, r.Int64N(int64(n.per)), int64(n.per), r.Int64N(3 * int64(n.per)), r.Int64N(14 * int64(n.per))}[r.IntN(7)])
		take.Op, take.Cost, take.Undo = stint.Ask, uint32(r.IntN(25)), nil
		if len(taken) > 0 && r.IntN(4) == 0 {
			i := r.IntN(len(taken))
			one := taken[i]
			taken = slices.Delete(taken, i, i+1)
			cost := 1 + r.IntN(len(one.units))
			take.Op, take.Cost, take.Undo = stint.Refund, uint32(cost), &one.d
			n.back(now, one.units[len(one.units)-cost:])
		}
		d, _ := granted(&record, &book, &take, now)
		fmt.Fprintf(&text, "at %v, op %d, cost %d: %s\n", now.Sub(hours(0)), take.Op, take.Cost, told(&d))
		if take.Op == stint.Ask {
			units, ok := n.take(now, int(take.Cost))
			if ok != d.Allowed {
				return text.String() + fmt.Sprint("want allowed ", ok)
			}
			if ok && take.Cost > 0 {
				taken = append(taken, naiveTake{units, d})
			}
		}
		if want := n.remaining(now); d.Remaining != want || d.Remaining > d.Limit {
			return text.String() + fmt.Sprint("want ", want, " remaining")
		}
		if !d.Allowed {
			if want := n.retry(now, int(take.Cost)); d.RetryAfter != want {
				return text.String() + fmt.Sprint("want retry ", want.Hours())
			}
		}
	}
	return ""
}
