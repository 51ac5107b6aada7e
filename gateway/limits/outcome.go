package limits

import (
	"cmp"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"stint/gateway/internal/client"
	"stint/httplimit"
	"stint/limiter"
)

// outcomeVar is the variable of a request with its outcome.
const outcomeVar = "stint.outcome"

// outcome is what the access log and placeholders show of the decisions about a request, and the place
// of those of stint_early.
type outcome struct {
	rule, verdict string
	earlier       httplimit.Earlier
	decided       []decision  // which directives decided it, in order
	few           [2]decision // memory of decided
	client        client.Found
}

// The verdicts beside the reasons of denials.
const (
	allowed = "allowed"
	invalid = "invalid" // the request itself is wrong
)

// outcomes finds the outcomes of the requests of a server.
type outcomes struct {
	logged bool // the access log shows them
}

// of returns the outcome of a request, and makes it visible if it is new. It returns nil for a request
// that does not come from a server of Caddy.
func (s outcomes) of(r *http.Request) *outcome {
	ctx := r.Context()
	vars, ok := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	if !ok {
		return nil
	}
	if o, known := vars[outcomeVar].(*outcome); known {
		return o
	}
	o := new(outcome)
	vars[outcomeVar] = o
	if replacer, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(o.placeholder)
	}
	if s.logged {
		if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
			extra.Add(zap.Object("stint", o))
		}
	}
	return o
}

// earlier returns the place for the decisions of stint_early about a request.
func (s outcomes) earlier(r *http.Request) *httplimit.Earlier {
	if o := s.of(r); o != nil {
		return &o.earlier
	}
	return nil
}

// observe records the decision about a request.
func (s outcomes) observe(r *http.Request, v *limiter.Verdict, pass bool) {
	if o := s.of(r); o != nil {
		o.verdict = allowed
		if !pass {
			o.verdict = cmp.Or(string(v.Reason()), invalid)
		}
		switch {
		case v.Listed != nil:
			o.rule = v.Listed.Name
		case v.Rule != nil:
			o.rule = v.Rule.Name
		case !pass:
			o.rule = ""
		}
	}
}

func (o *outcome) placeholder(key string) (any, bool) {
	switch key {
	case "http.stint.rule":
		return o.rule, true
	case "http.stint.verdict":
		return o.verdict, true
	}
	return nil, false
}

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (o *outcome) MarshalLogObject(e zapcore.ObjectEncoder) error {
	e.AddString("rule", o.rule)
	e.AddString("verdict", o.verdict)
	return nil
}
