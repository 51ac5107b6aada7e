// Package limitjson reads inline limits, which are part of requests instead of rules, and caches the most
// recent ones. It writes limits and the policies of rules in the words of rule files, and verdicts, as JSON.
package limitjson

import (
	"errors"
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"stint"
	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/rule"
)

// Words are the member names of a limit in a request: those of rate_limit in a rule file that
// define how much may pass.
var Words = []string{
	"algorithm", "requests", "per", "burst", "refill", "align", "blocks", "min_interval",
	"count_denied", "max_wait", "overdraw", "unit", "requests_per_unit", "unlimited",
	"time_zone", "start", "anchor",
}

const (
	hasAlgorithm = 1 << iota
	hasRequests
	hasPer
	hasBurst
	hasRefill
	hasAlign
	hasBlocks
	hasMinInterval
	hasCountDenied
	hasMaxWait
	hasOverdraw
	hasUnit
	hasRequestsPerUnit
	hasUnlimited
	hasTimeZone
	hasStart
	hasAnchor
)

// maxWord is the maximum length of a word of a limit, such as the name of a time zone, in bytes.
const maxWord = 100

const (
	wholeHint = "give a whole number in digits"
	spanHint  = `give a duration such as "100ms", "1s", "15m", "1h" or "1d"`
)

// written is a limit as written in a request.
type written struct {
	spec      stint.Spec
	calendar  stint.Period // the period of the unit
	unlimited bool
}

// ReadLimit decodes the object of a limit.
func ReadLimit(s *jsonbody.Scanner) (*stint.Limit, *jsonbody.Fault) {
	start := s.Pos
	var w written
	seen, f := s.Object(Words, func(field int) *jsonbody.Fault { return w.read(s, 1<<field) })
	if f == nil {
		f = w.check(seen)
	}
	if f != nil {
		return nil, f
	}
	w.spec.RoundRate = true // a rate that cannot be represented is rounded down
	limit, err := stint.NewLimit(w.spec)
	if err == nil {
		return limit, nil
	}
	if wrong, ok := errors.AsType[*stint.SpecError](err); ok {
		field := wrong.Field
		if field == "requests" && seen&hasRequestsPerUnit != 0 {
			field = "requests_per_unit"
		}
		return nil, jsonbody.BadAt(start, wrong.Problem, wrong.Hint).In(field)
	}
	return nil, jsonbody.BadAt(start, err.Error(), "see docs/algorithms.md")
}

// read decodes the value of one member.
func (w *written) read(s *jsonbody.Scanner, field int) (f *jsonbody.Fault) {
	spec := &w.spec
	switch field {
	case hasAlgorithm:
		spec.Algorithm, f = readAlgorithm(s)
	case hasRequests, hasRequestsPerUnit:
		spec.Requests, f = s.Whole(wholeHint)
	case hasPer:
		spec.Per, f = readSpan(s)
	case hasBurst:
		spec.Burst, f = s.Whole(wholeHint)
	case hasRefill:
		spec.Step, f = either(s, "steady", "step")
	case hasAlign:
		spec.FromFirst, f = either(s, "epoch", "first")
	case hasBlocks:
		var n uint32
		n, f = s.Whole(wholeHint)
		spec.Blocks = int(min(n, math.MaxInt32))
		if f == nil && n == 0 {
			f = jsonbody.BadAt(s.Pos, "0 blocks", "leave it out for 1")
		}
	case hasMinInterval:
		spec.MinInterval, f = readSpan(s)
	case hasCountDenied:
		spec.CountDenied, f = s.Truth()
	case hasMaxWait:
		spec.MaxWait, f = readSpan(s)
	case hasOverdraw:
		spec.Overdraw, f = s.Truth()
	case hasUnit:
		f = w.readUnit(s)
	case hasUnlimited:
		w.unlimited, f = s.Truth()
	case hasStart:
		spec.StartUsedUp, f = either(s, "unused", "used_up")
	case hasAnchor:
		var n uint32
		n, f = s.Whole(wholeHint)
		spec.Anchor = uint8(min(n, math.MaxUint8))
		if f == nil && n == 0 {
			f = jsonbody.BadAt(s.Pos, "0 is no day", "give a day from 1 to 31, or leave it out for the first")
		}
	case hasTimeZone:
		spec.Zone, f = readZone(s)
	}
	return f
}

// check completes the spec from the given members and refuses invalid combinations. stint.NewLimit
// checks the members of a single algorithm.
func (w *written) check(seen uint64) *jsonbody.Fault {
	refuse := func(field, problem, hint string) *jsonbody.Fault { return jsonbody.Bad(field, problem, hint) }
	switch {
	case w.unlimited && seen&^hasUnlimited != 0:
		return refuse("unlimited", "is set beside other words", "give it alone, or leave it out")
	case w.unlimited:
		w.spec = stint.Spec{Algorithm: stint.Unlimited}
		return nil
	case seen&hasRequests != 0 && seen&hasRequestsPerUnit != 0:
		return refuse("requests_per_unit", "is another word for requests, which is given too", "give one of them")
	case seen&hasPer != 0 && seen&hasUnit != 0:
		return refuse("unit", "is another word for per, which is given too", "give one of them")
	case seen&(hasRequests|hasRequestsPerUnit) == 0:
		return refuse("requests", "missing", "give the number that may pass in the period; 0 denies all")
	case seen&(hasPer|hasUnit) == 0:
		return refuse("per", "missing", spanHint)
	case seen&hasBurst != 0 && w.spec.Burst == 0 && w.spec.Algorithm == stint.TokenBucket:
		return refuse("burst", "0 lets nothing through, ever", "give at least 1, or leave it out for as many as requests")
	case w.spec.Zone != nil && w.calendar == stint.NoPeriod:
		return refuse("time_zone", "is set without a calendar period", "use it with unit: day, week, month or year")
	case w.spec.Zone != nil:
		w.spec.Per, w.spec.Calendar = 0, w.calendar
	}
	return w.checkZeros(seen)
}

// checkZeros refuses members of another algorithm that have their zero value, which stint.NewLimit
// cannot distinguish from missing ones.
func (w *written) checkZeros(seen uint64) *jsonbody.Fault {
	a := w.spec.Algorithm
	for _, word := range []struct {
		bit    uint64
		field  string
		belong bool
		of     string
	}{
		{hasBurst, "burst", a == stint.TokenBucket || a == stint.LeakyBucket, "token_bucket and leaky_bucket"},
		{hasRefill, "refill", a == stint.TokenBucket, "token_bucket"},
		{hasAlign, "align", a == stint.FixedWindow, "fixed_window"},
		{hasStart, "start", a == stint.SlidingWindow, "sliding_window"},
		{hasMinInterval, "min_interval", a == stint.SlidingLog, "sliding_log"},
		{hasCountDenied, "count_denied", a == stint.SlidingLog, "sliding_log"},
		{hasMaxWait, "max_wait", a == stint.LeakyBucket, "leaky_bucket"},
		{hasOverdraw, "overdraw", a != stint.LeakyBucket, "every algorithm but leaky_bucket"},
	} {
		if seen&word.bit != 0 && !word.belong {
			return jsonbody.Bad("", "not a word of "+a.String(),
				"it belongs to "+word.of+"; leave it out or change the algorithm").In(word.field)
		}
	}
	return nil
}

// readUnit decodes the word for a period.
func (w *written) readUnit(s *jsonbody.Scanner) *jsonbody.Fault {
	start := s.Pos
	name, f := s.TextUpTo(maxWord)
	if f != nil {
		return f
	}
	if u, ok := rule.ParseUnit(name); ok {
		w.spec.Per, w.calendar = u.Per, u.Calendar
		return nil
	}
	return jsonbody.BadAt(start, "unknown unit "+text.Quote(name), "use second, minute, hour, day, week, month or year, or give per")
}

// readZone decodes the name of a time zone.
func readZone(s *jsonbody.Scanner) (*time.Location, *jsonbody.Fault) {
	start := s.Pos
	name, f := s.TextUpTo(maxWord)
	if f != nil {
		return nil, f
	}
	zone, ok := text.LoadZone(name)
	if !ok {
		return nil, jsonbody.BadAt(start, "unknown time zone "+text.Quote(name), "use a name of the IANA database, such as Europe/Madrid or UTC")
	}
	return zone, nil
}

func readAlgorithm(s *jsonbody.Scanner) (stint.Algorithm, *jsonbody.Fault) {
	start := s.Pos
	name, f := s.TextUpTo(maxWord)
	if f != nil {
		return 0, f
	}
	a, err := stint.ParseAlgorithm(name)
	if err != nil || a == stint.Unlimited {
		return 0, jsonbody.BadAt(start, "unknown algorithm "+text.Quote(name),
			"known are token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_window")
	}
	return a, nil
}

// either decodes one of two words and reports whether it was the second.
func either(s *jsonbody.Scanner, no, yes string) (bool, *jsonbody.Fault) {
	start := s.Pos
	word, f := s.TextUpTo(maxWord)
	if f != nil {
		return false, f
	}
	if word != no && word != yes {
		return false, jsonbody.BadAt(start, text.Quote(word)+" is not known here", "give "+no+" or "+yes)
	}
	return word == yes, nil
}

// readSpan decodes a duration above zero.
func readSpan(s *jsonbody.Scanner) (time.Duration, *jsonbody.Fault) {
	start := s.Pos
	d, written, f := s.Duration(spanHint)
	if f == nil && d <= 0 {
		return 0, jsonbody.BadAt(start, text.Quote(written)+" is not above zero", spanHint)
	}
	return d, f
}

// Cache caches limits of requests by their bytes, because clients send the same few limits
// repeatedly. It has a fixed number of slots, so clients cannot fill the memory. Call Init before
// Read. It is safe for concurrent use.
type Cache struct {
	seed  maphash.Seed
	slots [256]atomic.Pointer[knownLimit]
}

type knownLimit struct {
	text  string
	limit *stint.Limit
}

// maxKnown is the maximum length of a cached limit in bytes.
const maxKnown = 512

// Init initializes the cache.
func (c *Cache) Init() { c.seed = maphash.MakeSeed() }

// Read decodes the object of a limit, or skips it if the cache has it.
func (c *Cache) Read(s *jsonbody.Scanner) (*stint.Limit, *jsonbody.Fault) {
	if s.Space() != '{' {
		return nil, s.Mismatch("an object")
	}
	text := flat(s)
	if text == nil {
		return ReadLimit(s)
	}
	slot := &c.slots[maphash.Bytes(c.seed, text)%uint64(len(c.slots))]
	if known := slot.Load(); known != nil && known.text == string(text) {
		s.Pos += len(text)
		return known.limit, nil
	}
	kept := string(text) // copied before decoding modifies the bytes
	limit, f := ReadLimit(s)
	if f == nil {
		slot.Store(&knownLimit{kept, limit})
	}
	return limit, f
}

// flat returns the bytes of an object without nested objects; nil if there is none or it is too
// long for the cache. They may be invalid JSON.
func flat(s *jsonbody.Scanner) []byte {
	rest := s.Data[s.Pos:]
	rest = rest[:min(len(rest), maxKnown)]
	quoted := false
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return rest[:i+1]
		case c == '{' && !quoted:
			return nil
		}
	}
	return nil
}
