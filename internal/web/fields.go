package web

import (
	"strconv"
	"time"

	"stint"
)

// FieldName is the name of a field.
type FieldName uint8

// Fields of a response.
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

// String returns the name as its specification spells it.
func (n FieldName) String() string { return fieldText[n] }

// Canonical returns the name as net/http and net/textproto spell it in their maps.
func (n FieldName) Canonical() string { return canonical[n] }

// Fields are the fields of one response. The zero Fields has none. It keeps its memory from one
// response to the next, so rendering allocates nothing.
type Fields struct {
	text []byte
	name [names]FieldName
	end  [names]int // the end of each field's value in text
	n    int
}

// Len returns the number of fields.
func (f *Fields) Len() int { return f.n }

// Field returns number i. The value is valid until the next response is rendered.
func (f *Fields) Field(i int) (name FieldName, value []byte) {
	from := 0
	if i > 0 {
		from = f.end[i-1]
	}
	return f.name[i], f.text[from:f.end[i]]
}

// Text returns the values of all fields, one after another.
func (f *Fields) Text() string { return string(f.text) }

// Put sets the fields in a map like net/http's Header, and replaces those of the same names. The
// map, and so the HTTP/1 response, has the names as their specifications spell them. Header.Get
// does not find these; read the map instead. Put allocates twice, however many fields there are.
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

// Answer renders the fields of a response. policies are the limits that were asked, without those
// in shadow mode; denied is the index of the one that denied, -1 for an allowed request.
//
// Fields without a list describe the limit that denied, else the one nearest to denying among those
// that have the preset, the first one on a tie. In lists this limit comes first. A limit without
// presets appears only in its own refusals, which then have Retry-After alone.
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

// Wait renders the fields of a refusal without a limit: Retry-After.
func (f *Fields) Wait(d time.Duration) {
	f.text, f.n = f.text[:0], 0
	f.number(RetryAfter, wait(d))
}

// speaker returns the index of the policy that the fields of a preset describe, -1 for none.
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

// draft03 renders X-RateLimit fields like Envoy: after the limit comes a list of all policies.
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

// ietf renders the two lists: RateLimit-Policy with the policies, and RateLimit with the remaining
// units of each.
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
		// After a refusal the client waits as long as Retry-After. A limit that did not deny has no
		// time, because it might be later.
		if p.More > 0 && (!denied || !p.Allowed) {
			f.param(";t=", wait(p.More))
		}
	})
	f.close(RateLimit)
}

// list calls each for every policy with the preset IETF, starting with first. Of several policies
// with one name (one rule that matched twice) it uses the one nearest to denying.
func list(policies []Policy, first int, each func(*Policy)) {
	each(&policies[first])
	for i := range policies {
		if policies[i].Presets&IETF != 0 && !outdone(policies, first, i) {
			each(&policies[i])
		}
	}
}

// outdone reports whether list uses another policy with the name of policy i.
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

// wait adds the time to wait after a refusal, or nothing if waiting does not help.
func (f *Fields) wait(name FieldName, p *Policy) {
	if p.RetryAfter != stint.Never {
		f.number(name, wait(p.RetryAfter))
	}
}

func (f *Fields) number(name FieldName, n int64) {
	f.text = strconv.AppendInt(f.text, n, 10)
	f.close(name)
}

// close adds a field whose value is the text since the last field.
func (f *Fields) close(name FieldName) {
	f.name[f.n], f.end[f.n] = name, len(f.text)
	f.n++
}

// Quoted returns the name of a policy as the fields of the preset IETF write it.
func Quoted(name string) string { return string(appendName(nil, name)) }

const hex = "0123456789ABCDEF"

// appendName appends the name of a policy as a string of structured fields, which is also a JSON
// string. It percent-encodes the percent sign and all that is not printable ASCII, so different
// names stay different.
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
