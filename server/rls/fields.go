package rls

import (
	"strconv"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/response"
	"stint/rule"
)

// LimitHeaders are the names of the three header fields that envoyproxy/ratelimit sends if
// LIMIT_RESPONSE_HEADERS_ENABLED is set: the limit (the larger of requests and burst), the
// remaining units, and the seconds until reset. Their values are those of the last descriptor that
// denied, or else of the one with the fewest remaining units. A field with an empty name is not
// sent.
type LimitHeaders struct{ Limit, Remaining, Reset string }

// Reset is the format of X-RateLimit-Reset in the preset legacy. Its value is always rounded up.
type Reset = web.Reset

// The formats of X-RateLimit-Reset.
const (
	UnixSeconds = web.UnixSeconds
	UnixMillis  = web.UnixMillis
	Delta       = web.Delta
)

// fields are the header fields of one answer. They reuse their memory.
type fields struct {
	policies []web.Policy
	preset   web.Fields
	names    LimitHeaders // names of the fields with numbers; "" for none
	text     [3][]byte
}

// all yields the names and values of the fields.
func (f *fields) all(yield func(name string, value []byte) bool) {
	for i, name := range [...]string{f.names.Limit, f.names.Remaining, f.names.Reset} {
		if name != "" && !yield(name, f.text[i]) {
			return
		}
	}
	for i := range f.preset.Len() {
		name, value := f.preset.Field(i)
		if !yield(name.String(), value) {
			return
		}
	}
}

// forget removes all fields.
func (f *fields) forget() {
	f.names = LimitHeaders{}
	if f.preset.Len() > 0 {
		f.preset.Answer(nil, -1, UnixSeconds)
	}
}

// originals sets the fields of envoyproxy/ratelimit. Their values are those of the last status over
// a limit that is not in quota mode, or else of the status with the fewest remaining units, the
// first one on a tie.
func (f *fields) originals(names LimitHeaders, c *Call) {
	chosen := -1
	for i := range c.response.statuses {
		s := &c.response.statuses[i]
		if !s.numbered {
			continue
		}
		if s.over && !c.onlyQuotas(i) {
			chosen = i
		} else if chosen < 0 || !c.denies(chosen) && s.remaining < c.response.statuses[chosen].remaining {
			chosen = i
		}
	}
	if chosen < 0 {
		return
	}
	s := &c.response.statuses[chosen]
	f.names = names
	most := max(int64(s.limit.requests), c.verdict.Results[chosen].Limit)
	for i, n := range [...]int64{most, int64(s.remaining), s.reset} {
		f.text[i] = strconv.AppendInt(f.text[i][:0], n, 10)
	}
}

// denies reports whether descriptor i is over a limit that is not in quota mode.
func (c *Call) denies(i int) bool { return c.response.statuses[i].over && !c.onlyQuotas(i) }

// onlyQuotas reports whether the limit that denies descriptor i is in quota mode.
func (c *Call) onlyQuotas(i int) bool {
	r := c.verdict.Results[i].Rule
	return c.request.Quota || r != nil && r.Quota
}

// presets sets the fields of the presets of the rules.
func (f *fields) presets(h *Handler, c *Call) {
	said := h.options.Headers != nil
	for i := range c.verdict.Asked {
		if said {
			break
		}
		r := c.verdict.Asked[i].Rule
		said = r != nil && r.Headers != nil
	}
	if !said {
		return
	}
	if v := &c.verdict; v.Ban != "" && v.RetryAfter != stint.Never {
		f.preset.Wait(v.RetryAfter)
		return
	}
	var denied int
	f.policies, denied = response.Policies(f.policies, &c.verdict, h.defaultPresets, (*namer)(c))
	if c.left > 0 {
		denied = response.DenyDelayed(f.policies, &c.verdict, c.left)
	}
	f.preset.Answer(f.policies, denied, h.options.Reset)
}

// namer returns the names of the limits of a call.
type namer Call

// Name implements response.Namer.
func (n *namer) Name(a *limiter.Asked) (string, *stint.Limit) {
	if a.Rule == nil {
		return "override", n.request.Descriptors[a.Descriptor].Limit
	}
	return a.Rule.Name, a.Rule.Limit
}

// presetsOf returns the set of presets for rules without presets.
func presetsOf(list []rule.Preset) web.Presets { return response.Presets(list) }
