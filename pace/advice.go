package pace

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"stint/internal/web"
)

// outcome is the result of a request. Its value is the number of requests that may follow if the
// server does not report its remaining requests.
type outcome uint64

const (
	refused  outcome = iota // refused by a limit
	failed                  // no answer: one more request may be tried
	answered                // answered: two more
)

// advice is the information about limits in an answer.
type advice struct {
	outcome outcome
	retry   time.Duration // Retry-After; 0 for none
	budget  bool          // whether the server reported its remaining requests:
	left    uint32        // their number
	during  time.Duration // the time for which they are valid
}

// read reads the advice of an answer that arrived at now. It cuts times to most and ignores
// malformed fields.
func read(answer *http.Response, now time.Time, most time.Duration) advice {
	h := answer.Header
	// Dates are relative to the server's own clock.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	var a advice
	if answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable {
		a.retry = retryAfter(h.Get("Retry-After"), now, most)
	}
	if fields := h.Values("RateLimit"); len(fields) > 0 {
		a.left, a.during, a.budget = rateLimit(strings.Join(fields, ","), most)
	}
	if !a.budget {
		a.left, a.during, a.budget = legacy(h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset"), now, most)
	}
	return a
}

// retryAfter parses seconds or a date, and returns the time from now.
func retryAfter(s string, now time.Time, most time.Duration) time.Duration {
	if n, ok := digits(s); ok {
		return seconds(n, most)
	}
	if t, err := http.ParseTime(s); err == nil {
		return min(max(0, t.Sub(now)), most)
	}
	return 0
}

// rateLimit parses the RateLimit field of draft-ietf-httpapi-ratelimit-headers, a list such as
// "day";r=90;t=3600, "second";r=0;t=1. Of several policies it returns the one with the fewest
// remaining requests, on a tie the one with the longest time; it ignores policies without a time.
// It ignores a list with a syntax error completely.
func rateLimit(field string, most time.Duration) (left uint32, during time.Duration, ok bool) {
	for field != "" {
		var member string
		var valid bool
		if member, field, valid = web.Cut(field, ','); !valid {
			return 0, 0, false
		}
		r, t, found, valid := policy(member)
		if !valid {
			return 0, 0, false
		}
		n, d := remaining(r), seconds(t, most)
		if found && d > 0 && (!ok || n < left || n == left && d > during) {
			left, during, ok = n, d, true
		}
	}
	return left, during, ok
}

// policy parses one member of the list; found reports whether it has both r and t.
func policy(member string) (r, t uint64, found, valid bool) {
	name, params, valid := web.Cut(member, ';')
	if name = strings.TrimSpace(name); !valid || name == "" {
		return 0, 0, false, false
	}
	var hasR, hasT bool
	for params != "" {
		var param string
		if param, params, valid = web.Cut(params, ';'); !valid {
			return 0, 0, false, false
		}
		key, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		switch key {
		case "":
			return 0, 0, false, false
		case "r":
			r, hasR = digits(value)
			valid = hasR
		case "t":
			t, hasT = digits(value)
			valid = hasT
		}
		if !valid {
			return 0, 0, false, false
		}
	}
	return r, t, hasR && hasT, true
}

// The smallest values that legacy treats as Unix times: values above the seconds of 15 years are
// seconds since 1970, and values above those of 3000 years are milliseconds.
const (
	leastUnixSeconds = 500_000_000
	leastUnixMillis  = 100_000_000_000
)

// legacy parses X-RateLimit-Remaining and X-RateLimit-Reset. The reset is in Unix seconds, Unix
// milliseconds or seconds from now, which its size determines. A reset in the past is ignored.
func legacy(left, reset string, now time.Time, most time.Duration) (uint32, time.Duration, bool) {
	n, ok := digits(left)
	at, ok2 := digits(reset)
	if !ok || !ok2 {
		return 0, 0, false
	}
	var during time.Duration
	switch {
	case at >= leastUnixMillis:
		during = time.UnixMilli(int64(min(at, 1<<60))).Sub(now)
	case at >= leastUnixSeconds:
		during = time.Unix(int64(at), 0).Sub(now)
	default:
		during = seconds(at, most)
	}
	if during <= 0 {
		return 0, 0, false
	}
	return remaining(n), min(during, most), true
}

// digits parses a whole number. A number that is too large becomes the largest one.
func digits(s string) (uint64, bool) {
	s = strings.TrimSpace(s)
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, _ := strconv.ParseUint(s, 10, 64) // on overflow n is the largest number; other errors are impossible
	return n, true
}

// seconds returns n seconds, at most most.
func seconds(n uint64, most time.Duration) time.Duration {
	if n > uint64(most/time.Second) {
		return most
	}
	return time.Duration(n) * time.Second
}

func remaining(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }
