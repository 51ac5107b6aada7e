package limits

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
)

var midnight = stint.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// hours returns a time on the first day of 2026, or later.
func hours(n float64) stint.Instant {
	return midnight.Add(time.Duration(n * float64(time.Hour)))
}

// grantStep is a take of a key of a limit of 10 units in 24 hours.
type grantStep struct {
	at   float64 // hours
	op   stint.Op
	cost uint64
	undo int // number of the step that it undoes, from 1; 0: none
	want string
}

// told returns a decision as the steps name it: the remaining units of the limit, and what was spent or
// when to retry.
func told(d *stint.Decision) string {
	word := "allow"
	if !d.Allowed {
		word = "deny"
	}
	text := []string{fmt.Sprintf("%s %d/%d", word, d.Remaining, d.Limit)}
	for _, s := range readSpent(d.Spent) {
		name := s.ID
		switch s.Kind {
		case SpentOwn:
			name = "own"
		case SpentCarry:
			name = "carry"
		}
		text = append(text, fmt.Sprintf("%s:%d", name, s.Units))
	}
	switch {
	case d.RetryAfter == stint.Never:
		text = append(text, "never")
	case !d.Allowed:
		text = append(text, fmt.Sprint("retry ", d.RetryAfter.Hours()))
	}
	return strings.Join(text, " ")
}

const (
	ask    = stint.Ask
	force  = stint.Force
	refund = stint.Refund
)

var grantSteps = map[string]struct {
	rollover int64
	grants   []Grant
	requests int
	steps    []grantStep
}{
	"a take uses the limit, then a grant": {
		grants: []Grant{{"g", 10, GrantPriority, hours(0), hours(100)}},
		steps: []grantStep{
			{0, ask, 7, 0, "allow 13/20 own:7"},
			{0, ask, 5, 0, "allow 8/20 own:3 g:2"},
			{0, ask, 9, 0, "deny 8/20 retry 24"},
			{0, ask, 0, 0, "allow 8/20"},
			{0, ask, 20, 0, "deny 8/20 never"},
			{0, ask, 18, 0, "deny 8/20 retry 24"},
			{24, ask, 18, 0, "allow 0/20 own:10 g:8"},
			{24, ask, 1, 0, "deny 0/20 retry 24"},
			{24, ask, 11, 0, "deny 0/20 never"},
		},
	},
	"priorities below 100 come before the limit": {
		grants: []Grant{
			{"first", 2, 50, hours(0), hours(100)},
			{"second", 2, 99, hours(0), hours(100)},
			{"third", 2, 100, hours(0), hours(100)},
			{"last", 2, 200, hours(0), hours(100)},
		},
		steps: []grantStep{
			{0, ask, 3, 0, "allow 15/18 first:2 second:1"},
			{0, ask, 12, 0, "allow 3/18 second:1 own:10 third:1"},
			{0, ask, 3, 0, "allow 0/18 third:1 last:2"},
			{1, refund, 3, 3, "allow 3/18 back 3"},
			{1, refund, 6, 2, "allow 9/18 back 6"}, // the last units of the take: third 1, own 5
			{1, ask, 9, 0, "allow 0/18 own:5 third:2 last:2"},
			{1, refund, 3, 1, "allow 3/18 back 3"},
			{1, ask, 3, 0, "allow 0/18 first:2 second:1"},
		},
	},
	"a grant counts from its start until its end": {
		grants: []Grant{{"late", 5, GrantPriority, hours(6), hours(12)}, {"later", 20, GrantPriority, hours(30), hours(31)}},
		steps: []grantStep{
			{0, ask, 10, 0, "allow 0/10 own:10"},
			{0, ask, 3, 0, "deny 0/10 retry 6"},
			{0, ask, 6, 0, "deny 0/10 retry 24"},
			{0, ask, 11, 0, "deny 0/10 retry 30"},
			{0, ask, 30, 0, "deny 0/10 retry 30"},
			{0, ask, 31, 0, "deny 0/10 never"},
			{6, ask, 3, 0, "allow 2/15 late:3"},
			{6, ask, 3, 0, "deny 2/15 retry 18"},
			{12, ask, 1, 0, "deny 0/10 retry 12"},
			{12, refund, 3, 7, "allow 0/10 back 0"}, // the grant has ended
			{30, ask, 30, 0, "allow 0/30 own:10 later:20"},
			{31, refund, 30, 11, "allow 10/10 back 10"},
		},
	},
	"a refund after the end of the window goes back to grants alone": {
		grants: []Grant{{"g", 10, GrantPriority, hours(0), hours(100)}},
		steps: []grantStep{
			{0, ask, 15, 0, "allow 5/20 own:10 g:5"},
			{24, ask, 1, 0, "allow 14/20 own:1"},
			{24, refund, 15, 1, "allow 19/20 back 0"},
			{24, ask, 19, 0, "allow 0/20 own:9 g:10"},
		},
	},
	"a refund of no take gives back what was used last first": {
		rollover: 4,
		grants:   []Grant{{"a", 2, 50, hours(0), hours(100)}, {"b", 2, GrantPriority, hours(0), hours(100)}},
		steps: []grantStep{
			{0, ask, 1, 0, "allow 13/14 a:1"},
			{24, ask, 17, 0, "allow 0/18 carry:4 a:1 own:10 b:2"},
			{24, refund, 3, 0, "allow 3/18 back 3"},
			{24, ask, 3, 0, "allow 0/18 own:1 b:2"},
			{24, refund, 14, 0, "allow 14/18 back 14"},
			{24, ask, 4, 0, "allow 10/18 a:2 own:2"}, // a had 2 of two periods
			{24, refund, 100, 0, "allow 18/18 back 8"},
		},
	},
	"forced takes use grants and leave a debt": {
		grants: []Grant{{"g", 2, GrantPriority, hours(0), hours(100)}},
		steps: []grantStep{
			{0, force, 15, 0, "allow 0/12 own:13 g:2"},
			{0, ask, 1, 0, "deny 0/12 retry 24"},
			{0, refund, 15, 1, "allow 12/12 back 15"},
		},
	},
	"a prepaid key has grants only": {
		requests: -1, grants: []Grant{{"g", 3, GrantPriority, hours(0), hours(100)}, {"h", 3, GrantPriority, hours(50), hours(100)}},
		steps: []grantStep{
			{0, ask, 2, 0, "allow 1/3 g:2"},
			{0, ask, 2, 0, "deny 1/3 retry 50"},
			{0, ask, 5, 0, "deny 1/3 never"},
			{49, refund, 2, 1, "allow 3/3 back 0"},
			{50, force, 9, 0, "allow 0/6 g:3 h:3"},
		},
	},
	"a period leaves units to the next, up to the cap": {
		rollover: 4,
		steps: []grantStep{
			{0, ask, 0, 0, "allow 10/10"},
			{24, ask, 7, 0, "allow 3/10 own:7"},
			{24, ask, 14, 0, "deny 3/10 retry 48"}, // the next period has 13, the one after it 14
			{24, ask, 13, 0, "deny 3/10 retry 24"},
			{24, ask, 15, 0, "deny 3/10 never"},
			{48, ask, 0, 0, "allow 13/13"},
			{48, ask, 5, 0, "allow 8/13 carry:3 own:2"},
			{72, ask, 1, 0, "allow 13/14 carry:1"},
			{72, ask, 13, 0, "allow 0/14 carry:3 own:10"},
			{96, ask, 1, 0, "allow 9/10 own:1"},
			{120, refund, 1, 10, "allow 14/14 back 0"}, // its period has ended
		},
	},
	"periods without a take leave all that they had": {
		rollover: 25,
		steps: []grantStep{
			{0, ask, 8, 0, "allow 2/10 own:8"},
			{24, ask, 0, 0, "allow 12/12"},
			{48, ask, 0, 0, "allow 22/22"},
			{72, ask, 0, 0, "allow 32/32"},
			{96, ask, 0, 0, "allow 35/35"},
			{72, ask, 36, 0, "deny 32/32 never"},
			{72, ask, 35, 0, "deny 32/32 retry 24"},
			{12*24 + 23, ask, 0, 0, "allow 35/35"},
			{13 * 24, ask, 0, 0, "allow 10/10"}, // forgotten
			{12*24 + 23, ask, 36, 0, "deny 35/35 never"},
			{13 * 24, ask, 11, 0, "deny 10/10 never"},
			{13 * 24, ask, 1, 0, "allow 9/10 own:1"},
			{14 * 24, ask, 0, 0, "allow 19/19"},
		},
	},
	"units given back are left to the next period": {
		rollover: 10,
		steps: []grantStep{
			{0, ask, 10, 0, "allow 0/10 own:10"},
			{1, refund, 10, 1, "allow 10/10 back 10"},
			{24, ask, 12, 0, "allow 8/20 carry:10 own:2"},
			{24, refund, 12, 3, "allow 20/20 back 12"},
			{25, ask, 12, 0, "allow 8/20 carry:10 own:2"},
			{25, refund, 1, 5, "allow 9/20 back 1"},
			{48, ask, 0, 0, "allow 19/19"},
			{48, refund, 11, 5, "allow 19/19 back 0"},
		},
	},
	"forced units leave less": {
		rollover: 10,
		steps: []grantStep{
			{0, force, 14, 0, "allow 0/10 own:14"},
			{24, ask, 0, 0, "allow 10/10"},
			{48, ask, 0, 0, "allow 16/16"},
		},
	},
	"time that runs backwards gives nothing": {
		rollover: 4,
		steps: []grantStep{
			{24, ask, 8, 0, "allow 2/10 own:8"},
			{23.999, ask, 0, 0, "allow 2/10"},
			{48, ask, 1, 0, "allow 11/12 carry:1"},
			{47.999, ask, 1, 0, "allow 2/12 carry:1"},
			{47.999, ask, 1, 0, "allow 1/12 own:1"},
			{72, ask, 0, 0, "allow 11/11"}, // what the earlier window counted is not left
		},
	},
	"a clock that ran ahead is corrected in the period before": {
		rollover: 4,
		steps: []grantStep{
			{0, ask, 3, 0, "allow 7/10 own:3"},
			{24, ask, 2, 0, "allow 12/14 carry:2"},
			{240, ask, 1, 0, "allow 13/14 carry:1"},
			{30, ask, 0, 0, "allow 11/14"},
			{30, ask, 15, 0, "deny 11/14 never"},
			{30, ask, 12, 0, "deny 11/14 retry 18"},
			{30, ask, 2, 0, "allow 9/14 carry:1 own:1"},
			{48, ask, 1, 0, "allow 13/14 carry:1"},
			{72, ask, 14, 0, "allow 0/14 carry:4 own:10"},
		},
	},
	"a clock that ran ahead is corrected in a later period": {
		rollover: 4,
		steps: []grantStep{
			{0, ask, 9, 0, "allow 1/10 own:9"},
			{240, ask, 2, 0, "allow 12/14 carry:2"},
			{24, ask, 0, 0, "allow 10/11"}, // as if 2 units were taken of 1 that was carried
			{24, ask, 1, 0, "allow 9/11 own:1"},
			{48, ask, 0, 0, "allow 14/14"},
		},
	},
	"units of the limit that a clock ahead replaced are not left": {
		rollover: 25,
		steps: []grantStep{
			{0, ask, 8, 0, "allow 2/10 own:8"},
			{120, ask, 30, 0, "allow 5/35 carry:25 own:5"},
			{1, ask, 1, 0, "allow 4/10 own:1"},
			{24, ask, 0, 0, "allow 4/10"}, // the state counts from hour 1
			{72, ask, 0, 0, "allow 10/10"},
			{96, ask, 0, 0, "allow 11/11"}, // 4 periods had 40 units, of which 39 were used
		},
	},
	"a key that a clock ahead charged first": {
		rollover: 4,
		steps: []grantStep{
			{240, ask, 3, 0, "allow 7/10 own:3"},
			{1, ask, 1, 0, "allow 6/10 own:1"},
			{24, ask, 0, 0, "allow 10/14"},
		},
	},
	"a clock ahead for two periods leaves nothing in the period in which it is corrected": {
		rollover: 4,
		steps: []grantStep{
			{0, ask, 3, 0, "allow 7/10 own:3"},
			{240, ask, 1, 0, "allow 13/14 carry:1"},
			{264, ask, 1, 0, "allow 13/14 carry:1"},
			{1, ask, 1, 0, "allow 6/10 own:1"},
			{24, ask, 0, 0, "allow 14/14"},
			{24, ask, 1, 0, "allow 13/14 carry:1"},
		},
	},
	"units that a clock ahead took come back": {
		rollover: 4,
		steps: []grantStep{
			{0, ask, 3, 0, "allow 7/10 own:3"},
			{240, ask, 2, 0, "allow 12/14 carry:2"},
			{24, ask, 0, 0, "allow 12/14"},
			{24, refund, 2, 2, "allow 14/14 back 0"},
			{24, ask, 1, 0, "allow 13/14 carry:1"},
		},
	},
	"units given back after a clock that ran ahead": {
		rollover: 25,
		steps: []grantStep{
			{0, ask, 3, 0, "allow 7/10 own:3"},
			{240, ask, 2, 0, "allow 33/35 carry:2"},
			{1, refund, 1, 1, "allow 8/10 back 1"},
			{1, ask, 1, 0, "allow 7/10 own:1"},
			{24, ask, 0, 0, "allow 15/15"},
		},
	},
}

// TestGrantSteps runs the step tables.
func TestGrantSteps(t *testing.T) {
	for name, table := range grantSteps {
		t.Run(name, func(t *testing.T) {
			requests := table.requests
			switch requests {
			case 0:
				requests = 10
			case -1:
				requests = 0
			}
			limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: uint32(requests), Per: 24 * time.Hour})
			take := stint.Take{Key: "k", Limit: limit, Handling: &stint.Handling{Meter: &Meter{Rollover: table.rollover, Grants: table.grants}}}
			var r Record
			var b Book
			answers := make([]stint.Decision, len(table.steps))
			for i, s := range table.steps {
				take.Op, take.Cost, take.Undo = s.op, uint32(s.cost), nil
				if s.undo > 0 {
					take.Undo = &answers[s.undo-1]
				}
				var c UseChange
				answers[i], c = granted(&r, &b, &take, hours(s.at))
				got, spent := told(&answers[i]), int64(0)
				if s.op == refund {
					got += fmt.Sprint(" back ", c.GivenBack)
				}
				if got != s.want {
					t.Errorf("step %d: %s, want %s", i+1, got, s.want)
				}
				for _, from := range readSpent(answers[i].Spent) {
					spent += from.Units
				}
				if int64(c.Charged) != spent || spent > 0 && uint64(spent) != s.cost && requests > 0 {
					t.Errorf("step %d: charged %d, spent %d", i+1, c.Charged, spent)
				}
				if d := &answers[i]; !d.Allowed && d.RetryAfter != stint.Never {
					checkRetry(t, &r, &b, &take, d)
				}
			}
		})
	}
}

// granted decides a take by the record and book of its key.
func granted(r *Record, b *Book, t *stint.Take, now stint.Instant) (stint.Decision, UseChange) {
	f := FundsOf(r, b, t.Limit, t.Handling.Meter, now)
	return f.Apply(t.Op, uint64(t.Cost), t.Undo)
}

// checkRetry checks that a denied take passes exactly after its retry time, and not a moment before.
func checkRetry(t *testing.T, r *Record, b *Book, take *stint.Take, d *stint.Decision) {
	t.Helper()
	at := d.At.Add(d.RetryAfter)
	for _, after := range []stint.Instant{at - 1, at} {
		own := Record{Limit: r.Limit}
		r.State.CopyTo(&own.State)
		book := b.Clone()
		if again, _ := granted(&own, book, take, after); again.Allowed != (after == at) {
			t.Errorf("a take of %d that is told to retry at %v: %s at %v", take.Cost, at, told(&again), after)
		}
	}
}

// TestSpent divides a Decision.Spent.
func TestSpent(t *testing.T) {
	var b []byte
	for _, s := range []Source{{Kind: SpentCarry, End: 1 << 50, Units: 3}, {Kind: SpentGrant, ID: "a", Units: 2}, {Units: 1 << 40}, {Kind: SpentGrant, ID: strings.Repeat("b", 300), Units: 1}} {
		b = s.append(b)
	}
	whole := string(b)
	if got := SpentPart(whole, 0, 1<<50); got != whole {
		t.Errorf("the whole is not the whole: %q", got)
	}
	parts := SpentPart(whole, 0, 4) + SpentPart(whole, 4, 1<<40) + SpentPart(whole, 4+1<<40, 10)
	sum := map[string]int64{}
	for _, s := range readSpent(parts) {
		sum[fmt.Sprint(s.Kind, s.ID, s.End)] += s.Units
	}
	if len(sum) != 4 {
		t.Errorf("parts have %v", sum)
	}
	total := int64(0)
	for _, units := range sum {
		total += units
	}
	if total != 6+1<<40 {
		t.Errorf("parts have %d units", total)
	}
	last := SpentLast(whole, 3)
	if last[0].ID != strings.Repeat("b", 300) || last[0].Units != 1 || last[1].Units != 2 || last[1].Kind != SpentOwn {
		t.Errorf("last 3 units: %v", last)
	}
	if more := SpentLast("", 3); len(more) != 1 || more[0].Units != 3 {
		t.Errorf("a take without grants: %v", more)
	}
	for _, wrong := range []string{"\x05ab", "\x01", "\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if got := readSpent(wrong); got != nil {
			t.Errorf("%q reads as %v", wrong, got)
		}
	}
}

// TestCheckGrants refuses grants that no store can use.
func TestCheckGrants(t *testing.T) {
	spec := func(change func(*stint.Spec)) *stint.Limit {
		s := stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour}
		change(&s)
		return stint.MustLimit(s)
	}
	plain := spec(func(*stint.Spec) {})
	one := []Grant{{ID: "a", Units: 1}}
	for name, c := range map[string]struct {
		limit  *stint.Limit
		meter  Meter
		mode   stint.Coordination
		wrong  bool
		source bool
	}{
		"a grant":                 {limit: plain, meter: Meter{Grants: one}},
		"a rollover":              {limit: plain, meter: Meter{Rollover: 1}},
		"a calendar":              {limit: spec(func(s *stint.Spec) { s.Per, s.Calendar = 0, stint.Month }), meter: Meter{Rollover: 1}},
		"unlimited":               {limit: spec(func(s *stint.Spec) { *s = stint.Spec{Algorithm: stint.Unlimited} }), meter: Meter{Grants: one}},
		"no grants, elsewhere":    {limit: spec(func(s *stint.Spec) { s.Algorithm = stint.SlidingLog })},
		"another algorithm":       {limit: spec(func(s *stint.Spec) { s.Algorithm = stint.SlidingLog }), meter: Meter{Grants: one}, wrong: true},
		"windows by the first":    {limit: spec(func(s *stint.Spec) { s.FromFirst = true }), meter: Meter{Rollover: 1}, wrong: true},
		"overdraw":                {limit: spec(func(s *stint.Spec) { s.Overdraw = true }), meter: Meter{Grants: one}, wrong: true},
		"leased":                  {limit: plain, meter: Meter{Grants: one}, mode: stint.Leased, wrong: true},
		"a source":                {limit: plain, meter: Meter{Grants: one}, source: true, wrong: true},
		"twice the same":          {limit: plain, meter: Meter{Grants: append(one, one...)}, wrong: true},
		"without an ID":           {limit: plain, meter: Meter{Grants: make([]Grant, 1)}, wrong: true},
		"too many":                {limit: plain, meter: Meter{Grants: make([]Grant, MaxGrants+1)}, wrong: true},
		"a rollover below 0":      {limit: plain, meter: Meter{Rollover: -1, Grants: one}, wrong: true},
		"more units than doubles": {limit: plain, meter: Meter{Grants: []Grant{{ID: "a", Units: MaxUnits + 1}}}, wrong: true},
	} {
		call := stint.Call{Takes: []stint.Take{{Key: "k", Limit: c.limit, Handling: &stint.Handling{Terms: &stint.Terms{Coordination: c.mode}, Meter: &c.meter}}}}
		if c.source {
			call.Takes = append([]stint.Take{{Key: "b", Limit: plain, Borrows: 1}}, call.Takes...)
		}
		if err := CheckGrants(&call); errors.Is(err, ErrGrants) != c.wrong {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestBookForgets drops a carry after whose period a take without a rollover was charged, and keeps the use
// of grants that have ended for a year.
func TestBookForgets(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour})
	ends := []Grant{{"a", 10, 1, 0, hours(1)}, {"b", 10, 1, 0, hours(9)}}
	var r Record
	var b Book
	take := func(at float64, rollover int64, grants []Grant) stint.Decision {
		take := stint.Take{Key: "k", Limit: limit, Cost: 12, Handling: &stint.Handling{Meter: &Meter{Rollover: rollover, Grants: grants}}}
		d, _ := granted(&r, &b, &take, hours(at))
		return d
	}
	take(0, 5, ends)
	if want := []GrantUse{{"a", 10, hours(1)}, {"b", 2, hours(9)}}; !slices.Equal(b.Grants, want) {
		t.Errorf("%v, want %v", b.Grants, want)
	}
	if got, want := b.Carry.expiry(limit), hours(14); got != want {
		t.Errorf("the carry expires at %v, want %v", got.Sub(hours(0)), want.Sub(hours(0)))
	}
	for at, want := range map[stint.Instant]stint.Instant{hours(0): hours(9 + 366*24), hours(20): hours(20 + 366*24), stint.MaxInstant: stint.MaxInstant} {
		if got := b.Expiry(limit, at); got != want {
			t.Errorf("expires at %v, want %v", got.Sub(hours(0)), want.Sub(hours(0)))
		}
	}
	take(1, 0, ends)
	if want := []GrantUse{{"a", 10, hours(1)}, {"b", 10, hours(9)}}; !slices.Equal(b.Grants, want) || b.Carry != (Carry{}) {
		t.Errorf("%v, %v, want %v and no carry", b.Carry, b.Grants, want)
	}
	if d := take(2, 5, nil); d.Allowed || d.Remaining != 10 || b.Empty() {
		t.Errorf("%+v", d)
	}
	r, b = Record{}, Book{}
	take(3, 0, ends)
	if d := take(2.9999, 5, []Grant{{"c", 10, GrantPriority, 0, hours(9)}}); !d.Allowed || b.Carry != (Carry{}) {
		t.Errorf("a take with a rollover, charged in the window after its period, left %v: %+v", b.Carry, d)
	}
}

// TestBookExtends moves the end of a grant that is used up, and so is charged no more: its units are not
// there again when the old end has passed, and come back by a refund until the new end.
func TestBookExtends(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour})
	var r Record
	var b Book
	take := func(at float64, cost uint32, until float64) stint.Decision {
		meter := &Meter{Grants: []Grant{{"a", 3, GrantPriority, 0, hours(until)}}}
		d, _ := granted(&r, &b, &stint.Take{Key: "k", Limit: limit, Cost: cost, Handling: &stint.Handling{Meter: meter}}, hours(at))
		return d
	}
	first := take(0, 13, 2)
	for at := 1.0; at < 5; at++ {
		if d := take(at, 10, 9); !d.Allowed || d.Remaining != 0 {
			t.Errorf("at hour %v: %+v", at, d)
		}
	}
	back := stint.Take{Op: stint.Refund, Key: "k", Limit: limit, Cost: 13, Undo: &first, Handling: &stint.Handling{Meter: &Meter{Grants: []Grant{{"a", 3, GrantPriority, 0, hours(9)}}}}}
	granted(&r, &b, &back, hours(4))
	if got := b.used("a"); got != 0 {
		t.Errorf("%d units of the grant are used after all came back", got)
	}
}

// TestBookKeepsUse charges a key by a clock beyond the ends of its grants, and moves an end after it has
// passed: units that were used are not there again.
func TestBookKeepsUse(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: time.Hour})
	var r Record
	var b Book
	take := func(at float64, cost uint32, grants ...Grant) string {
		d, _ := granted(&r, &b, &stint.Take{Key: "k", Limit: limit, Cost: cost, Handling: &stint.Handling{Meter: &Meter{Grants: grants}}}, hours(at))
		return told(&d)
	}
	one := func(until float64) Grant { return Grant{"a", 3, GrantPriority, 0, hours(until)} }
	for i, step := range []struct {
		at    float64
		cost  uint32
		until float64
		want  string
	}{
		{0, 13, 2, "allow 0/13 own:10 a:3"},
		{48, 1, 2, "allow 9/10 own:1"}, // a clock that ran ahead
		{1, 0, 2, "allow 9/13"},
		{3, 1, 2, "allow 9/10 own:1"},
		{4, 0, 9, "allow 10/13"}, // the end was moved
		{9000, 1, 9, "allow 9/10 own:1"},
		{9001, 0, 9999, "allow 10/13"},
	} {
		if got := take(step.at, step.cost, one(step.until)); got != step.want {
			t.Errorf("step %d: %s, want %s", i+1, got, step.want)
		}
	}
	others := make([]Grant, 40)
	for i := range others {
		others[i] = Grant{fmt.Sprint("b", i), 1, 1, 0, hours(20000 - float64(i))}
		take(10000, 1, others[i])
	}
	take(20010, 1, Grant{"last", 1, 1, 0, hours(30000)})
	take(20010, 1)
	want := []string{"last"}
	for i := range 32 {
		want = append(want, others[i].ID)
	}
	var got []string
	for _, u := range b.Grants {
		got = append(got, u.ID)
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the book has %v, want %v", got, want)
	}
}

// TestRolloverBalance reads what a key has of its rollover, also after a clock that ran ahead used more than
// there is.
func TestRolloverBalance(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Per: 24 * time.Hour})
	var r Record
	var b Book
	for _, step := range []struct {
		at   float64
		cost uint32
		want Balance
	}{{0, 9, Balance{0, 0}}, {24, 0, Balance{1, 0}}, {240, 3, Balance{4, 3}}, {1, 0, Balance{0, 0}}, {24, 0, Balance{1, 1}}} {
		granted(&r, &b, &stint.Take{Key: "k", Limit: limit, Cost: step.cost, Handling: &stint.Handling{Meter: &Meter{Rollover: 4}}}, hours(step.at))
		if got, _ := b.OfRollover(limit, 4, hours(step.at)); got != step.want {
			t.Errorf("at hour %v: %+v, want %+v", step.at, got, step.want)
		}
	}
}
