package stint_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"stint"
)

// The window of a calendar limit begins where the period of its zone begins and
// ends where the next one does: days of 23 and 25 hours, leap years, and zones
// whose clocks skip midnight.
func TestCalendarWindows(t *testing.T) {
	for _, test := range []struct {
		period   stint.Period
		zone     string
		now, end string
	}{
		{stint.Day, "Europe/Madrid", "2026-03-28T23:30:00Z", "2026-03-29T22:00:00Z"}, // 23 hours: the clocks go forward
		{stint.Day, "Europe/Madrid", "2026-03-29T21:59:59.999999Z", "2026-03-29T22:00:00Z"},
		{stint.Day, "Europe/Madrid", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25 hours: they go back
		{stint.Day, "Europe/Madrid", "2026-10-25T22:59:59Z", "2026-10-25T23:00:00Z"},
		{stint.Week, "Europe/Madrid", "2026-03-29T12:00:00Z", "2026-03-29T22:00:00Z"}, // Sunday is the last day
		{stint.Week, "Europe/Madrid", "2026-03-29T22:00:00Z", "2026-04-05T22:00:00Z"},
		{stint.Week, "", "2025-12-31T00:00:00Z", "2026-01-05T00:00:00Z"}, // over the new year
		{stint.Month, "", "2028-02-29T23:59:59Z", "2028-03-01T00:00:00Z"},
		{stint.Month, "", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"},
		{stint.Month, "Europe/Madrid", "2026-10-01T00:00:00Z", "2026-10-31T23:00:00Z"},
		{stint.Week, "", "1970-01-01T00:00:00Z", "1970-01-05T00:00:00Z"},
		{stint.Year, "", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
		{stint.Year, "Asia/Kolkata", "2026-12-31T18:29:59Z", "2026-12-31T18:30:00Z"},
		{stint.Day, "America/Sao_Paulo", "2018-11-04T02:30:00Z", "2018-11-04T03:00:00Z"}, // no midnight: 23:59:59 is followed by 01:00
		{stint.Day, "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{stint.Day, "America/Havana", "2024-03-10T04:30:00Z", "2024-03-10T05:00:00Z"},
		{stint.Day, "America/Havana", "2024-11-03T03:59:00Z", "2024-11-03T04:00:00Z"}, // midnight comes twice
		{stint.Day, "America/Havana", "2024-11-03T04:30:00Z", "2024-11-04T05:00:00Z"},
		{stint.Day, "America/Havana", "2024-11-03T05:30:00Z", "2024-11-04T05:00:00Z"},
		{stint.Day, "America/St_Johns", "2010-11-07T02:29:59Z", "2010-11-07T02:30:00Z"}, // 00:01 is followed by 23:01
		{stint.Day, "America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-08T03:30:00Z"},
		{stint.Day, "America/St_Johns", "2010-11-07T03:45:00Z", "2010-11-08T03:30:00Z"},
		{stint.Day, "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-30T10:00:00Z"}, // a day that never was
		{stint.Day, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
	} {
		limit := calendarLimit(t, test.period, test.zone)
		now, end := instant(t, test.now), instant(t, test.end)
		var st stint.State
		limit.Take(&st, now, 1)
		if d := limit.Take(&st, now, 2); d.Allowed || now.Add(d.RetryAfter) != end || d.ResetAfter != d.RetryAfter || limit.ForStores().Expiry(&st) != end {
			t.Errorf("%v in %q at %s: ends at %v, want %s", test.period, test.zone, test.now, now.Add(d.RetryAfter).Time(), test.end)
		}
		if d := limit.Take(&st, end-1, 2); d.Allowed {
			t.Errorf("%v in %q at %s: over before %s", test.period, test.zone, test.now, test.end)
		}
		if d := limit.Take(&st, end, 2); !d.Allowed {
			t.Errorf("%v in %q at %s: not over at %s", test.period, test.zone, test.now, test.end)
		}
	}
}

// At any time in any zone, the current window contains the time, and windows follow each other
// without a gap.
func TestCalendarWindowsFollowEachOther(t *testing.T) {
	zones := []string{
		"", "Europe/Madrid", "America/Sao_Paulo", "America/Havana", "America/St_Johns", "America/Asuncion",
		"Asia/Amman", "Asia/Damascus", "Asia/Tehran", "Africa/Cairo", "Pacific/Apia", "Australia/Lord_Howe", "Asia/Kathmandu",
	}
	for range 3000 {
		zone := zones[rand.IntN(len(zones))]
		limit := calendarLimit(t, stint.Day+stint.Period(rand.IntN(4)), zone)
		if limit.Spec().Calendar == stint.Month {
			spec := limit.Spec()
			spec.Anchor = uint8(rand.IntN(32))
			limit = stint.MustLimit(spec)
		}
		now := stint.Instant(rand.Int64N(int64(instant(t, "2040-01-01T00:00:00Z"))))
		for range 4 {
			var st stint.State
			reset := limit.Take(&st, now, 1).ResetAfter
			if reset <= 0 || reset > 367*24*time.Hour || limit.ForStores().Expiry(&st) != now.Add(reset) {
				t.Fatalf("%v in %q at %v: ends after %v, expiry %v", limit.Spec().Calendar, zone, now.Time(), reset, limit.ForStores().Expiry(&st).Time())
			}
			// Other times of the window have the same end.
			middle := now + stint.Instant(rand.Int64N(reset.Microseconds()))
			if end := middle.Add(limit.Take(new(stint.State), middle, 1).ResetAfter); end != now.Add(reset) {
				t.Fatalf("%v in %q: ends at %v by %v, but at %v by %v", limit.Spec().Calendar, zone, now.Add(reset).Time(), now.Time(), end.Time(), middle.Time())
			}
			now = now.Add(reset)
		}
	}
}

// Where clocks are set back to midnight, which comes twice, the day begins with the
// first.
func TestCalendarMidnightTwice(t *testing.T) {
	limit := calendarLimit(t, stint.Day, "Asia/Amman")
	for _, now := range []string{"2004-10-14T20:59:59Z", "2004-10-14T21:00:00Z", "2004-10-14T21:42:00Z", "2004-10-14T22:00:00Z", "2004-10-15T21:59:59Z"} {
		want := "2004-10-15T22:00:00Z"
		if now < "2004-10-14T21" {
			want = "2004-10-14T21:00:00Z"
		}
		at := instant(t, now)
		if end := at.Add(limit.Take(new(stint.State), at, 1).ResetAfter); end != instant(t, want) {
			t.Errorf("the day of %s ends at %v, want %s", now, end.Time(), want)
		}
	}
}

// A window with an anchor ends at the local midnight of its day, or of the last day of a shorter month,
// also across changes of the clocks.
func TestCalendarAnchor(t *testing.T) {
	for _, test := range []struct {
		anchor   uint8
		zone     string
		now, end string
	}{
		{31, "Europe/Madrid", "2026-01-30T23:00:00Z", "2026-02-27T23:00:00Z"}, // 28 February
		{31, "Europe/Madrid", "2026-02-27T22:59:59.999999Z", "2026-02-27T23:00:00Z"},
		{31, "Europe/Madrid", "2026-02-27T23:00:00Z", "2026-03-30T22:00:00Z"}, // a window over the hour that is skipped
		{31, "Europe/Madrid", "2026-03-29T01:30:00Z", "2026-03-30T22:00:00Z"},
		{31, "Europe/Madrid", "2026-03-30T22:00:00Z", "2026-04-29T22:00:00Z"},
		{31, "Europe/Madrid", "2026-09-29T22:00:00Z", "2026-10-30T23:00:00Z"}, // over the hour that comes twice
		{31, "Europe/Madrid", "2026-10-25T00:30:00Z", "2026-10-30T23:00:00Z"},
		{31, "Europe/Madrid", "2028-01-31T12:00:00Z", "2028-02-28T23:00:00Z"}, // 29 February
		{30, "Europe/Madrid", "2028-02-29T12:00:00Z", "2028-03-29T22:00:00Z"},
		{29, "", "2027-01-29T00:00:00Z", "2027-02-28T00:00:00Z"},
		{29, "", "2028-01-29T00:00:00Z", "2028-02-29T00:00:00Z"},
		{29, "Europe/Madrid", "2026-02-27T23:00:00Z", "2026-03-28T23:00:00Z"}, // the clocks change on that day
		{29, "Europe/Madrid", "2026-03-28T23:00:00Z", "2026-04-28T22:00:00Z"},
		{25, "Europe/Madrid", "2026-09-25T12:00:00Z", "2026-10-24T22:00:00Z"},
		{25, "Europe/Madrid", "2026-10-24T22:00:00Z", "2026-11-24T23:00:00Z"},
		{15, "", "2026-01-14T23:59:59Z", "2026-01-15T00:00:00Z"},
		{15, "", "2025-12-15T00:00:00Z", "2026-01-15T00:00:00Z"},
		{4, "America/Sao_Paulo", "2018-10-04T03:00:00Z", "2018-11-04T03:00:00Z"}, // no midnight on that day
		{7, "America/St_Johns", "2010-11-07T02:45:00Z", "2010-12-07T03:30:00Z"},  // 23:15 of the 6th comes after 00:00 of the 7th
		{1, "", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
	} {
		spec := calendarLimit(t, stint.Month, test.zone).Spec()
		spec.Anchor = test.anchor
		limit := stint.MustLimit(spec)
		now, end := instant(t, test.now), instant(t, test.end)
		var used stint.State
		limit.Take(&used, now, 2)
		if d := limit.Take(&used, end-1, 1); d.Allowed || d.RetryAfter != time.Microsecond {
			t.Errorf("day %d in %q at %s: the window ends %v after %s", test.anchor, test.zone, test.now, d.RetryAfter-time.Microsecond, test.end)
		}
		if d := limit.Take(&used, end, 2); !d.Allowed {
			t.Errorf("day %d in %q at %s: not over at %s", test.anchor, test.zone, test.now, test.end)
		}
		if d := limit.Take(new(stint.State), now, 1); now.Add(d.ResetAfter) != end { // whether it was used before or not
			t.Errorf("day %d in %q at %s: an unused key ends at %v, want %s", test.anchor, test.zone, test.now, now.Add(d.ResetAfter).Time(), test.end)
		}
	}
	for _, spec := range []stint.Spec{{Requests: 1, Calendar: stint.Month, Anchor: 32}, {Requests: 1, Calendar: stint.Day, Anchor: 2}, {Requests: 1, Per: time.Hour, Anchor: 2}} {
		if _, err := stint.NewLimit(spec); err == nil {
			t.Errorf("%+v is a limit", spec)
		}
	}
}

// A key keeps its use when the anchor changes, and changes back.
func TestCalendarAnchorChanges(t *testing.T) {
	first := stint.MustLimit(stint.Spec{Requests: 5, Calendar: stint.Month})
	tenth := stint.MustLimit(stint.Spec{Requests: 50, Calendar: stint.Month, Anchor: 10})
	now := instant(t, "2026-05-20T00:00:00Z")
	var st stint.State
	first.Take(&st, now, 3)
	tenth.ForStores().Migrate(&st, first, now)
	if d := tenth.Take(&st, now, 1); d.Remaining != 46 || now.Add(d.ResetAfter) != instant(t, "2026-06-10T00:00:00Z") {
		t.Errorf("after the change: %+v", d)
	}
	first.ForStores().Migrate(&st, tenth, now)
	if d := first.Take(&st, now, 1); d.Remaining != 0 || now.Add(d.ResetAfter) != instant(t, "2026-06-01T00:00:00Z") {
		t.Errorf("after changing back: %+v", d)
	}
}

func calendarLimit(t *testing.T, period stint.Period, zone string) *stint.Limit {
	t.Helper()
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return stint.MustLimit(stint.Spec{Requests: 2, Calendar: period, Zone: location})
}

func instant(t *testing.T, text string) stint.Instant {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return stint.At(at)
}
