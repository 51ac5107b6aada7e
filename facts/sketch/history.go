package sketch

import (
	"errors"
	"time"
)

const (
	tenMinutes = 10 * time.Minute

	// MinutesKept is how long a History keeps its minutes.
	MinutesKept = 24 * time.Hour

	// TensKept is how long a History keeps its ten minutes.
	TensKept = 7 * 24 * time.Hour
)

// History has counts by minute and by ten minutes.
type History struct {
	Minutes, Tens Series

	Ten   Numbers   // of the ten minutes that are not over
	TenAt time.Time // their begin; zero: they have no counts
}

// Record adds the counts of a minute.
func (h *History) Record(minute time.Time, n Numbers) {
	h.Minutes.Append(minute, time.Minute, MinutesKept, n)
	ten := minute.Truncate(tenMinutes)
	if !ten.Equal(h.TenAt) {
		if !h.TenAt.IsZero() {
			h.Tens.Append(h.TenAt, tenMinutes, TensKept, h.Ten)
		}
		h.Ten, h.TenAt = Numbers{}, ten
	}
	h.Ten.add(&n)
}

// Each calls do for each minute with counts from a time on, or for each ten minutes.
func (h *History) Each(from time.Time, tens bool, do func(at time.Time, n Numbers)) {
	if !tens {
		h.Minutes.Each(from, time.Minute, do)
		return
	}
	h.Tens.Each(from, tenMinutes, do)
	do(h.TenAt, h.Ten)
}

// Check reports whether a history that was read from a file is in order.
func (h *History) Check() error {
	return errors.Join(h.Minutes.Check(time.Minute), h.Tens.Check(tenMinutes))
}
