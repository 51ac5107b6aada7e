package web

import (
	"strconv"
	"time"

	"stint"
)

// FieldName is the name of a field.
type FieldName uint8

// The fields that an answer may have.
const (
	RetryAfter FieldName = iota
	RateLimitPolicy
	RateLimit
	XLimit
	XRemaining
	XReset
	XRetryAfter
	names
)

var fieldText = [names]string{
	"Retry-After", "RateLimit-Policy", "RateLimit",
	"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Retry-After",
}

var canonical = [names]string{
	"Retry-After", "Ratelimit-Policy", "Ratelimit",
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Retry-After",
}

// String returns the name as its specification writes it.
func (n FieldName) String() string { return fieldText[n] }

// Canonical returns the name as net/http and net/textproto spell it in their maps.
func (n FieldName) Canonical() string { return canonical[n] }

// Fields are the fields of one answer. The zero Fields has none; it keeps its
// memory from one answer to the next, so rendering allocates nothing.
type Fields struct {
	text []byte
	name [names]FieldName
	end  [names]int // where in text the value of each field ends
	n    int
}

// Len returns how many fields there are.
func (f *Fields) Len() int { return f.n }

// Field returns number i. The value is good until the next answer is rendered.
func (f *Fields) Field(i int) (name FieldName, value []byte) {
	from := 0
	if i > 0 {
		from = f.end[i-1]
	}
	return f.name[i], f.text[from:f.end[i]]
}

// Text returns the values of all fields, one after another.
func (f *Fields) Text() string { return string(f.text) }

// Put sets the fields in a map like net/http's Header, in place of what it has
// under their names. They stand in it, and so on an HTTP/1 wire, as their
// specifications spell them, where Header.Get does not look for them; who reads
// them in the same process asks the map. It allocates twice, however many there
// are.
func (f *Fields) Put(header map[string][]string) {
	if f.n == 0 {
		return
	}
	all, values, from := f.Text(), make([]string, f.n), 0
	for i := range values {
		values[i] = all[from:f.end[i]]
		delete(header, f.name[i].Canonical())
		header[f.name[i].String()] = values[i : i+1 : i+1]
		from = f.end[i]
	}
}

// Answer renders the fields of an answer. policies are the limits that were asked,
// without those in shadow mode; denied is the index of the one that denied, -1 for
// an allowed request.
//
// Fields without a list speak of the limit that denied, else of the one nearest to
// denying among those that have the preset, the first on a tie; in lists it stands
// first. A limit without presets leaves no trace in any answer but its own
// refusals, and those carry Retry-After alone.
func (f *Fields) Answer(policies []Policy, denied int, reset Reset) {
	f.text, f.n = f.text[:0], 0
	if denied >= 0 {
		f.wait(RetryAfter, &policies[denied])
	}
	if i := speaker(policies, denied, IETF); i >= 0 {
		f.ietf(policies, i, denied >= 0)
	}
	legacy := speaker(policies, denied, Legacy)
	if i := speaker(policies, denied, Draft03); i >= 0 {
		f.draft03(policies, i)
	} else if legacy >= 0 {
		p := &policies[legacy]
		f.number(XLimit, max(p.Quota, p.Limit))
		f.number(XRemaining, p.Remaining)
		f.number(XReset, reset.Value(&p.Decision))
	}
	if legacy >= 0 && denied >= 0 {
		f.wait(XRetryAfter, &policies[legacy])
	}
}

// Wait renders the fields of a refusal that no limit answers for: Retry-After.
func (f *Fields) Wait(d time.Duration) {
	f.text, f.n = f.text[:0], 0
	f.number(RetryAfter, wait(d))
}

// speaker returns the policy that the fields of a preset speak of, -1 for none.
func speaker(policies []Policy, denied int, preset Presets) int {
	if denied >= 0 {
		if policies[denied].Presets&preset == 0 {
			return -1
		}
		return denied
	}
	nearest := -1
	for i := range policies {
		if policies[i].Presets&preset != 0 && (nearest < 0 || policies[i].Remaining < policies[nearest].Remaining) {
			nearest = i
		}
	}
	return nearest
}

// draft03 renders X-RateLimit fields as Envoy does: the limit is followed by what
// all the policies are.
func (f *Fields) draft03(policies []Policy, first int) {
	p := &policies[first]
	f.text = strconv.AppendInt(f.text, max(p.Quota, p.Limit), 10)
	for i := range policies {
		if policies[i].Presets&Draft03 == 0 || policies[i].Window < time.Second {
			continue
		}
		f.text = append(f.text, ", "...)
		f.text = strconv.AppendInt(f.text, policies[i].Quota, 10)
		f.text = append(f.text, ";w="...)
		f.text = strconv.AppendInt(f.text, Seconds(policies[i].Window), 10)
	}
	f.close(XLimit)
	f.number(XRemaining, p.Remaining)
	f.number(XReset, Seconds(p.ResetAfter))
}

// ietf renders the two lists: what the policies are, and what is left of each.
func (f *Fields) ietf(policies []Policy, first int, denied bool) {
	list(policies, first, func(p *Policy) {
		f.item(p)
		f.param(";q=", p.Quota)
		if p.Window >= time.Second {
			f.param(";w=", Seconds(p.Window))
		}
	})
	f.close(RateLimitPolicy)
	list(policies, first, func(p *Policy) {
		f.item(p)
		f.param(";r=", p.Remaining)
		// A refusal is waited for as long as Retry-After says, so what did not deny
		// names no time: it might be a later one.
		if p.More > 0 && (!denied || !p.Allowed) {
			f.param(";t=", wait(p.More))
		}
	})
	f.close(RateLimit)
}

// list calls each policy of the preset IETF, the first one first. Of several that
// bear one name (one rule that matched twice) it calls the one nearest to denying.
func list(policies []Policy, first int, each func(*Policy)) {
	each(&policies[first])
	for i := range policies {
		if policies[i].Presets&IETF != 0 && !outdone(policies, first, i) {
			each(&policies[i])
		}
	}
}

// outdone says whether another policy speaks for the name of policy i.
func outdone(policies []Policy, first, i int) bool {
	p := &policies[i]
	if i == first || p.Name == policies[first].Name {
		return true
	}
	for j := range policies {
		q := &policies[j]
		if q.Name == p.Name && q.Presets&IETF != 0 && (q.Remaining < p.Remaining || q.Remaining == p.Remaining && j < i) {
			return true
		}
	}
	return false
}

// item begins the item of a policy in a list.
func (f *Fields) item(p *Policy) {
	from := 0
	if f.n > 0 {
		from = f.end[f.n-1]
	}
	if len(f.text) > from {
		f.text = append(f.text, ", "...)
	}
	f.text = appendName(f.text, p.Name)
}

func (f *Fields) param(name string, n int64) {
	f.text = strconv.AppendInt(append(f.text, name...), min(n, maxInteger), 10)
}

// maxInteger is the largest integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// wait adds how long to wait after a refusal, and nothing where that is for ever.
func (f *Fields) wait(name FieldName, p *Policy) {
	if p.RetryAfter != stint.Never {
		f.number(name, wait(p.RetryAfter))
	}
}

func (f *Fields) number(name FieldName, n int64) {
	f.text = strconv.AppendInt(f.text, n, 10)
	f.close(name)
}

// close makes what was written since the last field the value of another.
func (f *Fields) close(name FieldName) {
	f.name[f.n], f.end[f.n] = name, len(f.text)
	f.n++
}

// Quoted returns the name of a policy as the fields of the preset IETF write it.
func Quoted(name string) string { return string(appendName(nil, name)) }

const hex = "0123456789ABCDEF"

// appendName appends the name of a policy as a string of structured fields, which
// is the same in JSON. What is not printable ASCII is percent-encoded, and the
// percent sign, so that two names never look alike.
func appendName(dst []byte, name string) []byte {
	dst = append(dst, '"')
	for i := range len(name) {
		switch c := name[i]; {
		case c < ' ' || c > '~' || c == '%':
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
