package limits

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stint"
)

// TestRetryAfterClockBack makes takes in random histories whose clock goes back by up to several periods, and
// checks each retry time: the same take passes then, and not a millisecond earlier. It has 100,000 histories,
// with -short a few.
func TestRetryAfterClockBack(t *testing.T) {
	seed := *grantSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	histories := 100_000
	if testing.Short() {
		histories = 3_000
	}
	r := rand.New(rand.NewPCG(seed, 1))
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for range histories {
		if problem := clockBackHistory(r, berlin); problem != "" {
			t.Fatalf("%s\nrepeat with -args -limits.seed=%d", problem, seed)
		}
	}
}

// clockBackHistory checks the retry times of one history, and returns the first that is wrong; "" if none is.
func clockBackHistory(r *rand.Rand, zone *time.Location) string {
	spec := stint.Spec{Algorithm: stint.FixedWindow, Requests: uint32(r.IntN(12)), Per: []time.Duration{3 * time.Second, time.Hour, 24 * time.Hour}[r.IntN(3)]}
	per := spec.Per
	switch r.IntN(20) {
	case 0:
		spec.Per, spec.Calendar, spec.Zone, per = 0, stint.Month, zone, 31*24*time.Hour
	case 1:
		spec.Per, spec.Calendar, spec.Zone, per = 0, stint.Day, zone, 24*time.Hour
	}
	limit := stint.MustLimit(spec)
	meter := &Meter{Rollover: []int64{0, 4, 9, 30}[r.IntN(4)]}
	now, text := hours(0), strings.Builder{}
	for i := range r.IntN(3) {
		from := now + stint.Instant(r.Int64N(40)-10)*stint.Instant(per/time.Microsecond)/2
		meter.Grants = append(meter.Grants, Grant{fmt.Sprint("g", i), r.Int64N(12), []uint8{1, 99, 100, 200}[r.IntN(4)], from, from.Add(time.Duration(r.Int64N(60)) * per / 2)})
	}
	SortGrants(meter.Grants)
	fmt.Fprintf(&text, "limit %+v, rollover %d, grants %+v\n", spec, meter.Rollover, meter.Grants)
	take := stint.Take{Key: "k", Limit: limit, Handling: &stint.Handling{Meter: meter}}
	var record Record
	var book Book
	for range 12 {
		step := []time.Duration{0, 1, time.Duration(r.Int64N(int64(per))), per, time.Duration(r.Int64N(int64(3 * per))), -time.Duration(r.Int64N(int64(per))), -time.Duration(r.Int64N(int64(6 * per)))}[r.IntN(7)]
		now = now.Add(step)
		take.Op, take.Cost = stint.Ask, uint32(r.IntN(25))
		if r.IntN(10) == 0 {
			take.Op = stint.Force
		}
		d, _ := granted(&record, &book, &take, now)
		fmt.Fprintf(&text, "at %v, op %d, cost %d: %s\n", now.Sub(hours(0)), take.Op, take.Cost, told(&d))
		if d.Allowed {
			continue
		}
		until := now.Add(40 * per)
		if spec.Calendar != stint.NoPeriod {
			until = now.Add(MaxIdle * per) // see Funds.follow
		}
		early := []stint.Instant{1, 1000}
		for range 6 {
			early = append(early, 1+stint.Instant(r.Int64N(10*per.Microseconds())))
		}
		if wrong := wrongRetry(&record, &book, &take, &d, early, until); wrong != "" {
			return text.String() + wrong
		}
	}
	return ""
}

// wrongRetry tries a denied take again at its retry time, and earlier by some times but after now and not after
// until, where it does not pass. It returns what is wrong; "" if nothing is.
func wrongRetry(record *Record, book *Book, take *stint.Take, d *stint.Decision, early []stint.Instant, until stint.Instant) string {
	passes := func(at stint.Instant) bool {
		own := Record{Limit: record.Limit}
		record.State.CopyTo(&own.State)
		again, _ := granted(&own, book.Clone(), take, at)
		return again.Allowed
	}
	at := until
	if d.RetryAfter != stint.Never {
		if at = d.At.Add(d.RetryAfter); !passes(at) {
			return fmt.Sprint("it does not pass at ", at.Sub(hours(0)))
		}
	}
	for _, by := range early {
		if sooner := min(at-by, until); sooner >= d.At && passes(sooner) {
			return fmt.Sprint("it passes at ", sooner.Sub(hours(0)))
		}
	}
	return ""
}

// BenchmarkDeniedMonths denies takes of a key with a rollover whose periods are the months of a time zone: of
// one whose clock is right, of one whose clock went back, and without a rollover, for comparison.
func BenchmarkDeniedMonths(b *testing.B) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.FixedWindow, Requests: 10, Calendar: stint.Month, Zone: berlin})
	const month = 31 * 24
	for _, c := range []struct {
		name     string
		rollover int64
		times    []float64 // of the takes before, in hours
	}{{"none", 0, []float64{0}}, {"right", 30, []float64{-5 * month, 0}}, {"back", 30, []float64{-5 * month, 0, 4 * month}}} {
		b.Run(c.name, func(b *testing.B) {
			take := stint.Take{Key: "k", Limit: limit, Cost: 1, Handling: &stint.Handling{Meter: &Meter{Rollover: c.rollover, Grants: []Grant{{"g", 1, GrantPriority, hours(9), hours(99)}}}}}
			var r Record
			var book Book
			for _, at := range c.times {
				granted(&r, &book, &take, hours(at))
			}
			take.Cost = 200
			for b.Loop() {
				if d, _ := granted(&r, &book, &take, hours(2)); d.Allowed {
					b.Fatal("allowed")
				}
			}
		})
	}
}
