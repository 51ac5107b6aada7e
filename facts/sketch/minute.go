package sketch

import "time"

// minuteLong is a minute in microseconds.
const minuteLong = int64(time.Minute / time.Microsecond)

// Minute estimates how many units there were in the last minute, by those of the present minute of the
// clock and of the one before. The zero Minute has none. Times are in microseconds.
type Minute struct {
	at    int64 // the present minute
	units [2]uint64
}

// Advance moves on to a time. One in the minute before changes nothing; an earlier one, after the clock was set
// back, begins anew.
func (m *Minute) Advance(at int64) {
	switch minute := at / minuteLong; {
	case minute == m.at || minute == m.at-1:
	case minute == m.at+1:
		m.at, m.units = minute, [2]uint64{0, m.units[0]}
	default:
		m.at, m.units = minute, [2]uint64{}
	}
}

// Add adds units at the time of the last Advance.
func (m *Minute) Add(n uint64) { m.units[0] += n }

// Last returns the estimate at a time of the present minute: the units of the minute before count as
// evenly spread.
func (m *Minute) Last(at int64) float64 {
	left := 1 - float64(at%minuteLong)/float64(minuteLong)
	return float64(m.units[0]) + left*float64(m.units[1])
}
