package whatif

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"stint"
	"stint/internal/text"
)

// Sweep collects the takes of one limit, and then decides them again under many other numbers of
// requests. The period, the algorithm, and the burst as a share of the requests stay the same. Each
// key needs about five bytes for a take. A Sweep is used by one goroutine.
type Sweep struct {
	rule  string
	limit *stint.Limit
	names *text.Interner
	keys  []taken // by number of the key, until Curve sorts them
	takes int64
	made  map[uint32]*stint.Limit // by requests; nil: there is no such limit
}

// taken are the takes of one key, in order of time.
type taken struct {
	last  stint.Instant
	takes int64
	units int64
	steps []byte // for each take the time since the previous one, and the cost; as varints

	need uint32 // the smallest number of requests that denies none of them; see unlimitedNeed
}

// unlimitedNeed is the need of a key that no limit of this kind allows.
const unlimitedNeed = math.MaxUint32

// NewSweep returns a Sweep of the takes of a limit. rule is its name in the curve.
func NewSweep(rule string, limit *stint.Limit) *Sweep {
	return &Sweep{rule: rule, limit: limit, names: text.NewInterner(), made: map[uint32]*stint.Limit{}}
}

// Take adds a take. Takes must be added in order of time. One of cost 0 is ignored.
func (s *Sweep) Take(at stint.Instant, key string, cost uint32) {
	if cost == 0 {
		return
	}
	id := s.names.NumberOf(key)
	if int(id) == len(s.keys) {
		s.keys = append(s.keys, taken{})
	}
	k := &s.keys[id]
	since := int64(at) - int64(k.last)
	if k.takes > 0 && since < 0 {
		since = 0
	}
	k.last += stint.Instant(since)
	k.steps = binary.AppendUvarint(k.steps, uint64(since))
	k.steps = binary.AppendUvarint(k.steps, uint64(cost))
	k.takes++
	k.units += int64(cost)
	s.takes++
}

// Curve is what a limit would deny with other numbers of requests.
type Curve struct {
	Rule      string `json:"rule"`
	Algorithm string `json:"algorithm"`
	Per       string `json:"per"`
	Requests  int64  `json:"requests"` // the limit as it stands
	Keys      int64  `json:"keys"`
	Takes     int64  `json:"takes"`

	// Answers has for each of [Shares] the smallest limit that denies at most this share of the keys.
	// A share is missing if no limit does.
	Answers []Answer `json:"answers"`

	// Points are ordered by their requests, and contain the limit as it stands and all answers.
	Points []Point `json:"points"`
}

// Answer is the smallest limit that denies at most a share of the keys.
type Answer struct {
	Share float64 `json:"share"`
	Point
}

// Point is what a limit of a number of requests would deny.
type Point struct {
	Requests   int64 `json:"requests"`
	DeniedKeys int64 `json:"denied_keys"`
	Denied     int64 `json:"denied"` // takes
}

// Shares are the shares of denied keys that a curve has an answer for.
var Shares = []float64{0, 0.001, 0.01, 0.05, 0.1}

// Curve decides the takes again and returns what came out. It returns nil for a limit whose requests
// cannot be changed, and for one without takes.
func (s *Sweep) Curve() *Curve {
	spec := s.limit.Spec()
	if spec.Algorithm == stint.Unlimited || s.takes == 0 {
		return nil
	}
	for i := range s.keys {
		s.keys[i].need = s.need(&s.keys[i])
	}
	slices.SortFunc(s.keys, func(a, b taken) int { return cmp.Compare(a.need, b.need) })
	c := &Curve{
		Rule: s.rule, Algorithm: spec.Algorithm.String(), Per: period(&spec), Requests: int64(spec.Requests),
		Keys: int64(len(s.keys)), Takes: s.takes, Answers: []Answer{}, Points: []Point{},
	}
	at := map[uint32]bool{spec.Requests: spec.Requests > 0}
	answers := make([]uint32, len(Shares))
	for i, share := range Shares {
		answers[i] = s.answer(share)
		at[answers[i]] = answers[i] != unlimitedNeed
	}
	for _, n := range s.grid() {
		at[n] = true
	}
	for n, is := range at {
		if is {
			c.Points = append(c.Points, s.point(n))
		}
	}
	slices.SortFunc(c.Points, func(a, b Point) int { return cmp.Compare(a.Requests, b.Requests) })
	for i, n := range answers {
		if p := slices.IndexFunc(c.Points, func(p Point) bool { return p.Requests == int64(n) }); p >= 0 {
			c.Answers = append(c.Answers, Answer{Shares[i], c.Points[p]})
		}
	}
	return c
}

// answer returns the smallest number of requests that denies at most a share of the keys.
func (s *Sweep) answer(share float64) uint32 {
	denied := int(share * float64(len(s.keys)))
	return s.keys[len(s.keys)-1-denied].need
}

// grid returns numbers for the points of a curve: up to the largest need, about eight in a decade,
// with one decade at least.
func (s *Sweep) grid() []uint32 {
	top := sort.Search(len(s.keys), func(i int) bool { return s.keys[i].need == unlimitedNeed })
	most := uint32(10)
	if top > 0 {
		most = max(most, s.keys[top-1].need)
	}
	var numbers []uint32
	for decade := uint64(1); decade <= uint64(most); decade *= 10 {
		for _, tenths := range []uint64{10, 15, 20, 30, 40, 50, 60, 80} {
			if n := decade * tenths / 10; n <= uint64(most) && (decade > 1 || tenths%10 == 0) {
				numbers = append(numbers, uint32(n))
			}
		}
	}
	return numbers
}

// point decides all takes under a number of requests.
func (s *Sweep) point(requests uint32) Point {
	p := Point{Requests: int64(requests)}
	limit := s.with(requests)
	// The keys are sorted, so that all that are denied come last.
	for i := len(s.keys) - 1; i >= 0 && s.keys[i].need > requests; i-- {
		p.DeniedKeys++
		p.Denied += s.keys[i].denied(limit, math.MaxInt64)
	}
	return p
}

// need returns the smallest number of requests that denies none of the takes of a key. With more
// requests, a limit never denies more of them.
func (s *Sweep) need(k *taken) uint32 {
	most := uint32(min(k.units, unlimitedNeed-1))
	if s.denies(k, most) {
		if most = s.most(); s.denies(k, most) {
			return unlimitedNeed
		}
	}
	return 1 + uint32(sort.Search(int(most)-1, func(n int) bool { return !s.denies(k, uint32(n)+1) }))
}

func (s *Sweep) denies(k *taken, requests uint32) bool {
	limit := s.with(requests)
	return limit == nil || k.denied(limit, 1) > 0
}

// most returns the largest number of requests that the period allows, at most a million times the
// limit as it stands.
func (s *Sweep) most() uint32 {
	spec := s.limit.Spec()
	n := max(int64(spec.Requests), 1) * 1e6
	if spec.Per > 0 {
		n = min(n, spec.Per.Microseconds())
	}
	return uint32(min(n, unlimitedNeed-1))
}

// with returns the limit with another number of requests; nil if there is no such limit.
func (s *Sweep) with(requests uint32) *stint.Limit {
	limit, known := s.made[requests]
	if known {
		return limit
	}
	spec := s.limit.Spec()
	if spec.Burst > 0 && spec.Requests > 0 {
		burst := (uint64(spec.Burst)*uint64(requests) + uint64(spec.Requests) - 1) / uint64(spec.Requests)
		spec.Burst = uint32(min(burst, math.MaxUint32))
	}
	spec.Requests, spec.Reserve, spec.RoundRate = requests, false, true
	limit, err := stint.NewLimit(spec)
	if err != nil {
		limit = nil
	}
	s.made[requests] = limit
	return limit
}

// denied returns how many of the takes a limit denies. It stops at enough.
func (k *taken) denied(limit *stint.Limit, enough int64) int64 {
	var state stint.State
	var at stint.Instant
	n := int64(0)
	for rest := k.steps; len(rest) > 0 && n < enough; {
		since, a := binary.Uvarint(rest)
		cost, b := binary.Uvarint(rest[a:])
		rest = rest[a+b:]
		at += stint.Instant(since)
		if d := limit.Take(&state, at, cost); !d.Allowed {
			n++
		}
	}
	return n
}

// period returns the period of a limit in words.
func period(spec *stint.Spec) string {
	if spec.Calendar != stint.NoPeriod {
		return spec.Calendar.String()
	}
	return text.FormatDuration(spec.Per)
}
