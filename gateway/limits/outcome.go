package limits

import (
	"cmp"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"stint/limiter"
)

// outcomeVar is the variable of a request with its outcome.
const outcomeVar = "stint.outcome"

// outcome is what the access log and placeholders show of the decisions about a request.
type outcome struct{ rule, verdict string }

// The verdicts beside the reasons of denials.
const (
	allowed = "allowed"
	invalid = "invalid" // the request itself is wrong
)

// observer returns the function that records outcomes of the requests of a server.
func observer(server *caddyhttp.Server) func(*http.Request, *limiter.Verdict, bool) {
	logs := server != nil && server.Logs != nil
	return func(r *http.Request, v *limiter.Verdict, pass bool) {
		o, known := caddyhttp.GetVar(r.Context(), outcomeVar).(*outcome)
		if !known {
			o = new(outcome)
			o.show(r, logs)
		}
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

// show makes the outcome visible.
func (o *outcome) show(r *http.Request, logs bool) {
	ctx := r.Context()
	caddyhttp.SetVar(ctx, outcomeVar, o)
	if replacer, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		replacer.Map(o.placeholder)
	}
	if extra, ok := ctx.Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok && logs {
		extra.Add(zap.Object("stint", o))
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
