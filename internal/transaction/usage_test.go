package transaction

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/internal/limits"
)

// A history rolls over when a take comes, and is read as if it had.
func TestHistoryAt(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	month := stint.MustLimit(stint.Spec{Requests: 100, Calendar: stint.Month, Zone: berlin})
	first := stint.MustLimit(stint.Spec{Requests: 100, Per: time.Hour, FromFirst: true})
	at := func(year, month, day, hour int) stint.Instant {
		return stint.At(time.Date(year, time.Month(month), day, hour, 0, 0, 0, berlin))
	}
	for _, tt := range []struct {
		limit *stint.Limit
		keep  int
		takes []stint.Instant
		now   stint.Instant
		want  []uint64
		start stint.Instant // of the current period
	}{
		{month, 2, nil, at(2026, 3, 29, 12), []uint64{0}, at(2026, 3, 1, 0)},
		{month, 2, []stint.Instant{at(2026, 1, 31, 23), at(2026, 2, 28, 23), at(2026, 3, 1, 0)}, at(2026, 3, 31, 23), []uint64{1, 1, 1}, at(2026, 3, 1, 0)},
		{month, 2, []stint.Instant{at(2026, 1, 31, 23), at(2026, 2, 28, 23), at(2026, 3, 1, 0)}, at(2026, 4, 1, 0), []uint64{1, 1, 0}, at(2026, 4, 1, 0)},
		{month, 2, []stint.Instant{at(2026, 1, 31, 23), at(2026, 3, 1, 0)}, at(2026, 5, 31, 0), []uint64{1, 0}, at(2026, 5, 1, 0)},
		{month, 2, []stint.Instant{at(2026, 1, 31, 23)}, at(2026, 12, 31, 0), []uint64{0}, at(2026, 12, 1, 0)},
		{month, 0, []stint.Instant{at(2026, 1, 31, 23), at(2026, 2, 1, 0)}, at(2026, 2, 2, 0), []uint64{1}, at(2026, 2, 1, 0)},
		{first, 1, []stint.Instant{at(2026, 1, 1, 10), at(2026, 1, 1, 13)}, at(2026, 1, 1, 13) + 1, []uint64{1}, at(2026, 1, 1, 13)},
		{first, 3, []stint.Instant{at(2026, 1, 1, 10), at(2026, 1, 1, 11)}, at(2026, 1, 1, 11) + 1, []uint64{1, 1}, at(2026, 1, 1, 11)},
	} {
		var r Record
		var h History
		for _, now := range tt.takes {
			_, c := r.Metered(stint.Ask, tt.limit, now, 1, nil)
			h.Charge(c, tt.keep, 100, nil, 0)
		}
		var used []uint64
		all := h.At(tt.limit, tt.keep, tt.now)
		for _, p := range all {
			used = append(used, p.Used)
		}
		if !slices.Equal(used, tt.want) || all[len(all)-1].Start != tt.start {
			t.Errorf("%v of %v at %v: %+v, want %d", tt.takes, tt.limit.Spec(), tt.now.Time(), all, tt.want)
		}
		if last := all[len(all)-1]; last.End <= tt.now || last.Start > tt.now {
			t.Errorf("the current period at %v: %+v", tt.now.Time(), last)
		}
	}
}

// A charge finds the period of its window again if the clock ran backwards, and drops the oldest.
func TestHistoryOrder(t *testing.T) {
	var h History
	charge := func(start stint.Instant) {
		h.Charge(UseChange{Charged: 1, Start: start, End: start + 10, Used: 1}, 1, 100, []uint8{1}, 1)
	}
	for _, start := range []stint.Instant{0, 10, 0, 20} {
		charge(start)
	}
	want := History{{Start: 10, End: 20, Used: 1, Fired: Thresholds{2}}, {Start: 20, End: 30, Used: 1, Fired: Thresholds{2}}}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("%+v, want %+v", h, want)
	}
	charge(10)
	if h[1].Start != 10 || h[1].Used != 2 {
		t.Errorf("%+v", h)
	}
	h.GiveBack(1, 19)
	h.GiveBack(1, 20) // it has ended
	if h[1].Used != 1 {
		t.Errorf("%+v", h)
	}
	if at := h.Expiry(stint.MustLimit(stint.Spec{Requests: 1, Per: time.Hour}), 2); at != 40 {
		t.Errorf("expires at %d", at)
	}
}

// Thresholds are a set of percentages.
func TestThresholds(t *testing.T) {
	var set Thresholds
	for _, percent := range []uint8{1, 63, 64, 100} {
		if set.Has(percent) {
			t.Errorf("%d in %v", percent, set)
		}
		set.Add(percent)
	}
	for percent := range uint8(101) {
		if want := slices.Contains([]uint8{1, 63, 64, 100}, percent); set.Has(percent) != want {
			t.Errorf("%d: %v", percent, set.Has(percent))
		}
	}
}

// The parts of a history that two stores have add up.
func TestJoin(t *testing.T) {
	a := Usage{Names: Names{Subject: "user=1"}, History: History{{Start: 0, End: 10, Used: 1, Fired: Thresholds{2}}, {Start: 10, End: 20, Used: 2}}}
	b := Usage{Names: Names{Subject: "user=1"}, History: History{{Start: 0, End: 10, Used: 5, Fired: Thresholds{4}}, {Start: 5, End: 15, Used: 7}}}
	want := History{{Start: 0, End: 10, Used: 6, Fired: Thresholds{6}}, {Start: 5, End: 15, Used: 7}, {Start: 10, End: 20, Used: 2}}
	if got := a.Join(&b); !reflect.DeepEqual(got.History, want) || a.History[0].Used != 1 {
		t.Errorf("%+v, want %+v", got.History, want)
	}
	var none Usage
	if got := none.Join(&a); !reflect.DeepEqual(got, a) {
		t.Errorf("%+v", got)
	}
	book := Usage{Book: &Book{Grants: []limits.GrantUse{{ID: "g", Used: 3, Until: 9}}}} // its history has expired
	for _, got := range []Usage{book.Join(&a), a.Join(&book)} {
		if !reflect.DeepEqual(got.Book, book.Book) || got.Subject != a.Subject || !reflect.DeepEqual(got.History, a.History) {
			t.Errorf("%+v", got)
		}
	}
	for domain, want := range map[string]string{"api": "api/calls", "shop": "shop/api/calls"} {
		if got := (&Event{Names: Names{Domain: domain, Rule: "api/calls"}}).RuleName(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Usages and events are read as they were written, and bytes that are none of them are refused.
func TestEncoding(t *testing.T) {
	u := Usage{Names: Names{Domain: "api", Rule: "r", Limit: "l", Subject: "user=1", Plan: "p"}, History: History{{Start: 1, End: 1 << 50, Used: maxUsed, Fired: Thresholds{1 << 63, 1}, Plan: "p"}, {End: 2, Plan: "other"}, {End: 3}}}
	e := Event{ID: "x", Names: Names{Domain: "api", Rule: "r", Subject: "s"}, Threshold: 100, Used: 1, Of: 2, Start: 3, End: 4, At: 5}
	var readU Usage
	var readE Event
	bytesU, _ := u.AppendBinary(nil)
	bytesE, _ := e.AppendBinary(nil)
	if err := readU.UnmarshalBinary(bytesU); err != nil || !reflect.DeepEqual(readU, u) {
		t.Errorf("%+v, %v", readU, err)
	}
	if err := readE.UnmarshalBinary(bytesE); err != nil || readE != e {
		t.Errorf("%+v, %v", readE, err)
	}
	for n := range bytesU {
		if readU.UnmarshalBinary(bytesU[:n]) == nil {
			t.Errorf("read the first %d bytes of a usage", n)
		}
	}
	for n := range bytesE {
		if readE.UnmarshalBinary(bytesE[:n]) == nil {
			t.Errorf("read the first %d bytes of an event", n)
		}
	}
	if readU.UnmarshalBinary(append(bytesU, 0)) == nil || readE.UnmarshalBinary(append(bytesE, 0)) == nil {
		t.Error("read more bytes than there are")
	}
	if readU.UnmarshalBinary([]byte{0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f}) == nil {
		t.Error("read too many periods")
	}
}

// The periods of a usage without plans of their own have that of its names.
func TestEncodingWithoutPlans(t *testing.T) {
	names := appendTexts(nil, new("api"), new("r"), new("l"), new("user=1"), new("pro"))
	var u Usage
	earlier := appendNumbers(names, 2, 1, 5, 7, 0, 0, 5, 9, 8, 0, 0)
	err := u.UnmarshalBinary(earlier)
	if want := (History{{Start: 1, End: 5, Used: 7, Plan: "pro"}, {Start: 5, End: 9, Used: 8, Plan: "pro"}}); err != nil || !reflect.DeepEqual(u.History, want) {
		t.Errorf("%+v, %v", u, err)
	}
	if text, _ := u.AppendBinary(nil); string(text) != string(earlier) {
		t.Errorf("an earlier version cannot read a history of one plan: %q, want %q", text, earlier)
	}
}

// TestBookEncoding reads what was written, and nothing else.
func TestBookEncoding(t *testing.T) {
	for _, b := range []Book{{}, {Carry: limits.Carry{Start: 1, End: 2, Units: 3, Used: 4, Own: 5, Of: 6}}, {Carry: limits.Carry{Start: 1 << 50, End: stint.MaxInstant, Of: limits.MaxUnits}, Before: limits.Carry{Start: 7, End: 8, Used: 2 * limits.MaxUnits, Own: 9, Of: 1}, Grants: []limits.GrantUse{{ID: "a", Used: 1, Until: 2}, {Until: stint.MaxInstant}}}} {
		text := AppendBook(nil, &b)
		var got Book
		if err := ReadBook(text, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(b) {
			t.Errorf("%v reads as %v, %v", b, got, err)
		}
		for n := range text {
			if err := ReadBook(text[:n], &got); err == nil {
				t.Errorf("%v is read of its first %d bytes", b, n)
			}
		}
		if err := ReadBook(append(text, 0), &got); err == nil {
			t.Errorf("%v is read with a byte more", b)
		}
	}
}
