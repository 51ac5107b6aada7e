package replay

import (
	"slices"
	"time"

	"stint"
	"stint/replay/whatif"
)

// outcome is the decision about one line in each column.
type outcome struct {
	denied uint8 // one bit for each column
	delay  [whatif.MaxColumns]time.Duration
}

// noClient marks a line without a client to count.
const noClient = ^uint32(0)

// tally counts outcomes. Lines must be added in order of time.
type tally struct {
	main    int // the column of the limits as written
	columns []column
	clients []client
	first   stint.Instant
	last    stint.Instant
	second  second
	peak    int64 // most lines in one second
	series  series
}

// column are the counts of one column.
type column struct {
	allowed, denied int64
	out             meter
}

// client are the counts of one client.
type client struct {
	allowed, denied int64
	under           uint8 // bits of the columns that denied one of its lines
}

// second are the counts of the current second.
type second struct {
	at              int64 // Unix seconds
	offered, denied int64
}

func newTally(columns, main int) *tally {
	return &tally{main: main, columns: make([]column, columns)}
}

// note counts a line.
func (t *tally) note(at stint.Instant, who uint32, o *outcome) {
	if s := int64(at) / 1e6; s != t.second.at {
		t.turn(s)
	}
	if t.first == 0 {
		t.first = at
	}
	t.last = at
	t.second.offered++
	for i := range t.columns {
		c := &t.columns[i]
		if o.denied>>i&1 != 0 {
			c.denied++
			continue
		}
		c.allowed++
		c.out.pass(at, o.delay[i])
	}
	refused := int64(o.denied >> t.main & 1)
	t.second.denied += refused
	if who == noClient {
		return
	}
	c := &t.clients[who]
	c.denied += refused
	c.allowed += 1 - refused
	c.under |= o.denied
}

// known allocates the counts of a client.
func (t *tally) known(who uint32) {
	if int(who) >= len(t.clients) {
		t.clients = append(t.clients, client{})
	}
}

// turn finishes the current second.
func (t *tally) turn(next int64) {
	if t.second.offered > 0 {
		t.peak = max(t.peak, t.second.offered)
		t.series.add(t.second)
	}
	t.second = second{at: next}
}

// finish finishes the last second. note must not be called after it.
func (t *tally) finish() {
	t.turn(0)
	for i := range t.columns {
		t.columns[i].out.finish()
	}
}

// deniedClients returns the number of clients with a denied line in a column.
func (t *tally) deniedClients(column int) int64 {
	n := int64(0)
	for i := range t.clients {
		n += int64(t.clients[i].under >> column & 1)
	}
	return n
}

// denied reports whether the limits as written denied a line of a client.
func (t *tally) denied(id int) bool { return t.clients[id].under>>t.main&1 != 0 }

// maxClients is the number of clients in a report.
const maxClients = 20

// top returns the clients with the most denied lines, then the most lines, then the smallest name.
func (t *tally) top(name func(id uint32) string) []ClientCount {
	top := make([]ClientCount, 0, maxClients+1)
	for i, c := range t.clients {
		if c.allowed+c.denied == 0 {
			continue
		}
		count := ClientCount{Allowed: c.allowed, Denied: c.denied}
		if len(top) == maxClients && count.compareCounts(&top[maxClients-1]) > 0 {
			continue
		}
		count.Key = name(uint32(i))
		place, _ := slices.BinarySearchFunc(top, count, func(a, b ClientCount) int { return a.compare(&b) })
		top = slices.Insert(top, place, count)
		top = top[:min(len(top), maxClients)]
	}
	return top
}

// meter finds the second in which the most lines pass. Delayed lines pass later.
type meter struct {
	second int64
	n      int64
	peak   int64
	later  map[int64]int64
}

// pass adds a line that arrived at a time and passes after a delay. Calls must be in order of
// arrival.
func (m *meter) pass(at stint.Instant, delay time.Duration) {
	s := int64(at) / 1e6
	if s != m.second {
		m.turn(s)
	}
	out := s
	if delay > 0 {
		out = int64(at.Add(delay)) / 1e6
	}
	if out == s {
		m.n++
		return
	}
	if m.later == nil {
		m.later = map[int64]int64{}
	}
	m.later[out]++
}

// turn advances to a later second, through the seconds in which only delayed lines pass.
func (m *meter) turn(next int64) {
	m.peak = max(m.peak, m.n)
	if gap := next - m.second; gap <= int64(len(m.later)) {
		for s := m.second + 1; s < next; s++ {
			m.peak = max(m.peak, m.later[s])
			delete(m.later, s)
		}
	} else {
		for s, n := range m.later {
			if s < next {
				m.peak = max(m.peak, n)
				delete(m.later, s)
			}
		}
	}
	m.second, m.n = next, m.later[next]
	delete(m.later, next)
}

func (m *meter) finish() {
	m.peak = max(m.peak, m.n)
	for _, n := range m.later {
		m.peak = max(m.peak, n)
	}
}

// series are counts over time in at most maxBuckets buckets, whose width grows with the time span.
type series struct {
	step    int   // index in widths
	first   int64 // number of the first bucket: its start time divided by the width
	buckets []bucket
}

// bucket are the counts of a time interval.
type bucket struct {
	offered, denied int64
	peak, peakAfter int64 // most lines in one second, before and after the limits
}

const maxBuckets = 1000

// widths are the widths of buckets in seconds. Each is a multiple of the previous one; after the
// last one the width doubles.
var widths = []int64{1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400}

func (s *series) width() int64 {
	last := len(widths) - 1
	if s.step <= last {
		return widths[s.step]
	}
	return widths[last] << (s.step - last)
}

// add adds a second. Calls must be in order of time.
func (s *series) add(sec second) {
	if len(s.buckets) == 0 {
		s.first = sec.at
	}
	for sec.at/s.width()-s.first >= maxBuckets {
		s.widen()
	}
	for n := sec.at/s.width() - s.first; int64(len(s.buckets)) <= n; {
		s.buckets = append(s.buckets, bucket{})
	}
	b := &s.buckets[len(s.buckets)-1]
	b.merge(bucket{sec.offered, sec.denied, sec.offered, sec.offered - sec.denied})
}

// widen switches to the next width.
func (s *series) widen() {
	old, first := s.width(), s.first
	s.step++
	factor := s.width() / old
	s.first = first / factor
	wide := make([]bucket, 0, len(s.buckets)/int(factor)+2)
	for i, b := range s.buckets {
		n := (first+int64(i))/factor - s.first
		if int64(len(wide)) <= n {
			wide = append(wide, bucket{})
		}
		wide[n].merge(b)
	}
	s.buckets = wide
}

func (b *bucket) merge(other bucket) {
	b.offered += other.offered
	b.denied += other.denied
	b.peak = max(b.peak, other.peak)
	b.peakAfter = max(b.peakAfter, other.peakAfter)
}

// report writes the counts into a report. name returns the key of a client.
func (t *tally) report(r *Report, name func(id uint32) string) {
	main := &t.columns[t.main]
	r.Allowed, r.Denied = main.allowed, main.denied
	r.Clients = t.top(name)
	for i := range t.clients {
		if t.clients[i].allowed+t.clients[i].denied > 0 {
			r.DistinctClients++
		}
	}
	r.DeniedClients = t.deniedClients(t.main)
	r.Peak = Peak{Offered: t.peak, Allowed: main.out.peak}
	if t.last > 0 {
		r.First, r.Last = t.first.Time(), t.last.Time()
	}
	s := Series{
		Start: t.series.first * t.series.width(), Width: t.series.width(),
		Offered: []int64{}, Denied: []int64{}, PeakOffered: []int64{}, PeakAllowed: []int64{},
	}
	for _, b := range t.series.buckets {
		s.Offered = append(s.Offered, b.offered)
		s.Denied = append(s.Denied, b.denied)
		s.PeakOffered = append(s.PeakOffered, b.peak)
		s.PeakAllowed = append(s.PeakAllowed, b.peakAfter)
	}
	r.Series = s
}

// compare adds the counts of a column to the algorithms of the report.
func (r *Report) compare(t *tally, column int, a stint.Algorithm, numbers string) {
	c := &t.columns[column]
	r.Algorithms = append(r.Algorithms, AlgorithmCount{Algorithm: a.String(), Allowed: c.allowed, Denied: c.denied})
	r.Comparison = append(r.Comparison, Comparison{
		Algorithm: a.String(), Numbers: numbers, Allowed: c.allowed, Denied: c.denied,
		DeniedClients: t.deniedClients(column), Peak: c.out.peak,
	})
}
