package settings

import (
	"slices"
	"time"

	"stint/internal/config"
	"stint/internal/web"
	"stint/rule"
	"stint/server/rls"
	"stint/server/rls/transport"
)

// RLS are the settings of Envoy's protocol, on the grpc address and at /json.
type RLS struct {
	// TLS (grpc-tls-...) are the files of the certificates of grpc, see [Config].HTTPTLS.
	TLS web.CertFiles

	// MaxStreams (grpc-max-streams) is how many calls one connection may have in flight;
	// 1024 by default. What is above waits in the client.
	MaxStreams int64

	// MaxMessage (grpc-max-message) is the most bytes of a request; 1 MiB by default. Each
	// call in flight may hold this much memory.
	MaxMessage int64

	// Keepalive (grpc-keepalive) is how long a connection may be silent before it is asked
	// whether it is still there, and KeepaliveTimeout (grpc-keepalive-timeout) how long it
	// may take to say so; 2 min and 20 s by default.
	Keepalive, KeepaliveTimeout time.Duration

	// MaxAge (grpc-max-age) is the age at which a connection is asked to go away once its
	// calls are done, so that clients spread over new nodes; 0, the default: never.
	// MaxAgeGrace (grpc-max-age-grace) is how long its calls may take; 0: as long as
	// they want.
	MaxAge, MaxAgeGrace time.Duration

	// Headers (rls-headers) are the header fields that answers bring for the response to
	// the client, of limits whose rules name none: envoy, which are the three below, and
	// the presets ietf, legacy and draft03. None by default.
	Headers []string

	// HeaderLimit, HeaderRemaining and HeaderReset (rls-header-limit, rls-header-remaining,
	// rls-header-reset) are the names of the fields that envoy stands for: RateLimit-Limit,
	// RateLimit-Remaining and RateLimit-Reset by default. One without a name is not sent.
	HeaderLimit, HeaderRemaining, HeaderReset string

	// Metadata (rls-metadata) puts the request and the rules that decided into the dynamic
	// metadata of an answer; off by default. It costs a few microseconds.
	Metadata bool

	// Shadow (rls-shadow) lets every request pass, whatever the limits say; off by default.
	Shadow bool

	// Quota (rls-quota) takes all limits for such in quota mode: only all together deny a
	// request; off by default.
	Quota bool

	// Grant (rls-grant) is how many requests a descriptor is granted at once, for clients
	// that honour quotas; Envoy does not yet. 0, the default: no quotas.
	Grant int64

	// Reflection (grpc-reflection) tells clients that ask, such as grpcurl, what the
	// service looks like; on by default. It tells nothing of the rules.
	Reflection bool
}

// defaultRLS returns the settings where nobody configured them.
func defaultRLS() RLS {
	return RLS{
		MaxStreams: transport.MaxStreams, MaxMessage: transport.MaxMessage,
		Keepalive: 2 * time.Minute, KeepaliveTimeout: 20 * time.Second,
		HeaderLimit: "RateLimit-Limit", HeaderRemaining: "RateLimit-Remaining", HeaderReset: "RateLimit-Reset",
		Reflection: true,
	}
}

// settings are those of r.
func (r *RLS) settings() []Setting {
	return []Setting{
		{"grpc-max-streams", "most calls in flight on one grpc connection, a `NUMBER`", config.Number(&r.MaxStreams, 1, 1<<30)},
		{"grpc-max-message", "most bytes of a grpc request, a `SIZE`", config.Size(&r.MaxMessage, config.Bounds{Least: 1 << 10, Most: 1 << 30, What: "a request"})},
		{"grpc-keepalive", "`TIME` of silence after which a grpc client is asked whether it is there", config.Duration(&r.Keepalive)},
		{"grpc-keepalive-timeout", "longest `TIME` for its answer", config.Duration(&r.KeepaliveTimeout)},
		{"grpc-max-age", "`TIME` after which a grpc connection is asked to go away; 0: never", config.Duration(&r.MaxAge)},
		{"grpc-max-age-grace", "longest `TIME` for its calls then; 0: any", config.Duration(&r.MaxAgeGrace)},
		{"grpc-reflection", "tell grpc clients that ask what the service looks like", config.Flag(&r.Reflection)},
		{"rls-headers", "header `FIELDS` that answers in Envoy's protocol bring: none, envoy, ietf, legacy, draft03", config.List(&r.Headers, checkFields)},
		{"rls-header-limit", "`NAME` of the first of the fields envoy", config.Text(&r.HeaderLimit, config.CheckFieldName)},
		{"rls-header-remaining", "`NAME` of the second", config.Text(&r.HeaderRemaining, config.CheckFieldName)},
		{"rls-header-reset", "`NAME` of the third", config.Text(&r.HeaderReset, config.CheckFieldName)},
		{"rls-metadata", "put the request and the rules that decided into dynamic metadata", config.Flag(&r.Metadata)},
		{"rls-shadow", "let every request in Envoy's protocol pass, and count what would not", config.Flag(&r.Shadow)},
		{"rls-quota", "deny a request in Envoy's protocol only if all its limits do", config.Flag(&r.Quota)},
		{"rls-grant", "`NUMBER` of requests that a descriptor is granted at once; 0: no quotas", config.Number(&r.Grant, 0, 1<<30)},
	}
}

// The header fields of envoyproxy/ratelimit, and none, beside the presets.
const (
	envoyFields = "envoy"
	noFields    = "none"
)

func checkFields(name string) error {
	return config.OneOf(noFields, envoyFields, rule.IETF.String(), rule.Legacy.String(), rule.Draft03.String())(name)
}

// Options returns the options of the protocol's handler. envoy: limits count as those of
// envoyproxy/ratelimit.
func (r *RLS) Options(envoy bool) rls.Options {
	o := rls.Options{Metadata: r.Metadata, Shadow: r.Shadow, Quota: r.Quota, Grant: uint32(r.Grant), Tally: envoy}
	for _, name := range r.Headers {
		if name == envoyFields {
			o.LimitHeaders = rls.LimitHeaders{Limit: r.HeaderLimit, Remaining: r.HeaderRemaining, Reset: r.HeaderReset}
		} else if preset, ok := rule.ParsePreset(name); ok && preset != rule.None {
			o.Headers = append(o.Headers, preset)
		}
	}
	return o
}

// check returns the faults of values that do not go together.
func (r *RLS) check(c *Config) error {
	switch {
	case len(r.Headers) > 1 && slices.Contains(r.Headers, noFields):
		return c.Fault("rls-headers", "none stands beside others", "write none alone, or leave it out")
	case r.Keepalive == 0 || r.KeepaliveTimeout == 0:
		return c.Fault("grpc-keepalive", "no client answers in no time", "write times such as 2m and 20s")
	}
	return nil
}
