package web

import (
	"strconv"
	"time"

	"stint"
	"stint/internal/text"
)

// Presets is a set of families of fields. The zero Presets has none.
type Presets uint8

// The presets. Draft03 and Legacy share three names; with both, the values are Draft03's.
const (
	// IETF is RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers.
	IETF Presets = 1 << iota

	// Legacy is X-RateLimit-Limit, -Remaining, -Reset and, on a refusal, -Retry-After.
	Legacy

	// Draft03 is X-RateLimit-Limit, -Remaining and -Reset of an older draft, as Envoy
	// sends them.
	Draft03
)

// Reset is how Legacy and the envelope write the time of the reset.
type Reset uint8

// The formats of a reset, all rounded up.
const (
	UnixSeconds Reset = iota // seconds since the Unix epoch
	UnixMillis               // milliseconds since the Unix epoch
	Delta                    // seconds from now
)

// Value returns the time when the full limit is available again, in format r.
func (r Reset) Value(d *stint.Decision) int64 {
	at := int64(d.At) + int64((d.ResetAfter+time.Microsecond-1)/time.Microsecond)
	switch r {
	case UnixMillis:
		return (at + 999) / 1000
	case Delta:
		return Seconds(d.ResetAfter)
	default:
		return (at + 999_999) / 1_000_000
	}
}

// Seconds returns d in whole seconds, rounded up.
func Seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// wait returns the seconds that a refused client should wait: at least 1, as with 0 the client
// would come back at once.
func wait(d time.Duration) int64 { return max(1, Seconds(d)) }

// Numbers returns the name of a limit that has none of its own, for example "100/1m".
func Numbers(spec *stint.Spec) string {
	if spec.Algorithm == stint.Unlimited {
		return "unlimited"
	}
	per := spec.Calendar.String()
	if spec.Calendar == stint.NoPeriod {
		per = text.ShortDuration(spec.Per)
	}
	return strconv.FormatUint(uint64(spec.Requests), 10) + "/" + per
}

// Policy is one limit that was asked, as clients see it.
type Policy struct {
	// Name is the name of the limit in fields and bodies.
	Name string

	// Presets are the families of fields that show the numbers of the limit.
	Presets Presets

	// Quota units may pass per Window. Window 0: a window without a fixed length, for example a
	// month.
	Quota  int64
	Window time.Duration

	// More is the time until at least one more unit is available; 0: there is no need to wait, or
	// waiting does not help.
	More time.Duration

	stint.Decision
}

// PolicyOf returns the policy of a limit and its decision. An unlimited one has no numbers and so
// no presets.
func PolicyOf(name string, presets Presets, limit *stint.Limit, d *stint.Decision) Policy {
	spec := limit.Spec()
	if spec.Algorithm == stint.Unlimited || d.Limit == stint.NoLimit {
		presets = 0
	}
	return Policy{
		Name: name, Presets: presets, Quota: int64(spec.Requests), Window: spec.Per,
		More: more(&spec, d), Decision: *d,
	}
}

// more returns the time until a decision would show at least one more unit. The two sliding
// algorithms do not provide it; for them it is the time until all units are back, which is never
// too early.
func more(spec *stint.Spec, d *stint.Decision) time.Duration {
	switch {
	case !d.Allowed && d.RetryAfter == stint.Never, d.Remaining >= d.Limit:
		return 0
	case !d.Allowed:
		return d.RetryAfter
	case spec.Algorithm == stint.TokenBucket && spec.Step:
		// The bucket is full at a multiple of Per, and each step before it is one too.
		if rest := d.ResetAfter % spec.Per; rest > 0 {
			return rest
		}
		return spec.Per
	case spec.Algorithm == stint.TokenBucket || spec.Algorithm == stint.LeakyBucket:
		requests := time.Duration(spec.Requests)
		charge := ((spec.Per/time.Microsecond + requests - 1) / requests) * time.Microsecond
		next := d.ResetAfter - time.Duration(d.Limit-d.Remaining-1)*charge
		if spec.MaxWait > 0 && d.Remaining == 0 {
			next = max(next, d.ResetAfter-spec.MaxWait)
		}
		return max(next, 0)
	default:
		return d.ResetAfter
	}
}
