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

	// MaxStreams (grpc-max-streams) is how many calls one connection may have in flight; 1024 by
	// default. Further calls wait in the client.
	MaxStreams int64

	// MaxMessage (grpc-max-message) is the most bytes of a request; 1 MiB by default. Each call in
	// flight may use this much memory.
	MaxMessage int64

	// Keepalive (grpc-keepalive) is after which time without traffic the server pings a client, and
	// KeepaliveTimeout (grpc-keepalive-timeout) how long the client may take to answer; 2 min and
	// 20 s by default.
	Keepalive, KeepaliveTimeout time.Duration

	// MaxAge (grpc-max-age) is the age at which the server closes a connection once its calls are
	// done, so that clients spread over new nodes; 0, the default: never. MaxAgeGrace
	// (grpc-max-age-grace) is how long its calls may take then; 0: no bound.
	MaxAge, MaxAgeGrace time.Duration

	// Headers (rls-headers) are the response header fields for the client in answers, for limits
	// whose rules name none: envoy, which means the three below, and the presets ietf, legacy and
	// draft03. None by default.
	Headers []string

	// HeaderLimit, HeaderRemaining and HeaderReset (rls-header-limit, rls-header-remaining,
	// rls-header-reset) are the names of the fields of envoy: RateLimit-Limit, RateLimit-Remaining
	// and RateLimit-Reset by default. A field without a name is not sent.
	HeaderLimit, HeaderRemaining, HeaderReset string

	// Metadata (rls-metadata) puts the request and the rules that decided into the dynamic metadata
	// of an answer; off by default. It costs a few microseconds.
	Metadata bool

	// Shadow (rls-shadow) lets every request pass, whatever the limits decide; off by default.
	Shadow bool

	// Quota (rls-quota) treats all limits as in quota mode: a request is denied only if all of them
	// deny it; off by default.
	Quota bool

	// Grant (rls-grant) is how many requests a descriptor is granted at once, for clients that
	// support quotas; Envoy does not yet. 0, the default: no quotas.
	Grant int64

	// Reflection (grpc-reflection) serves the description of the protocol to clients such as
	// grpcurl; on by default. It shows nothing of the rules.
	Reflection bool
}

// defaultRLS returns the default settings.
func defaultRLS() RLS {
	return RLS{
		MaxStreams: transport.MaxStreams, MaxMessage: transport.MaxMessage,
		Keepalive: 2 * time.Minute, KeepaliveTimeout: 20 * time.Second,
		HeaderLimit: "RateLimit-Limit", HeaderRemaining: "RateLimit-Remaining", HeaderReset: "RateLimit-Reset",
		Reflection: true,
	}
}

// settings returns the settings of r.
func (r *RLS) settings() []Setting {
	return []Setting{
		{"grpc-max-streams", "most calls in flight on one grpc connection, a `NUMBER`", config.Number(&r.MaxStreams, 1, 1<<30)},
		{"grpc-max-message", "most bytes of a grpc request, a `SIZE`", config.Size(&r.MaxMessage, config.Bounds{Least: 1 << 10, Most: 1 << 30, What: "a request"})},
		{"grpc-keepalive", "`TIME` without traffic after which a grpc client is pinged", config.Duration(&r.Keepalive)},
		{"grpc-keepalive-timeout", "longest `TIME` for its answer to the ping", config.Duration(&r.KeepaliveTimeout)},
		{"grpc-max-age", "`TIME` after which the client of a grpc connection is told to close it; 0: never", config.Duration(&r.MaxAge)},
		{"grpc-max-age-grace", "longest `TIME` for its calls then; 0: no bound", config.Duration(&r.MaxAgeGrace)},
		{"grpc-reflection", "serve the description of the protocol to grpc clients", config.Flag(&r.Reflection)},
		{"rls-headers", "header `FIELDS` in answers of Envoy's protocol: none, envoy, ietf, legacy, draft03", config.List(&r.Headers, checkFields)},
		{"rls-header-limit", "`NAME` of the first of the fields envoy", config.Text(&r.HeaderLimit, config.CheckFieldName)},
		{"rls-header-remaining", "`NAME` of the second", config.Text(&r.HeaderRemaining, config.CheckFieldName)},
		{"rls-header-reset", "`NAME` of the third", config.Text(&r.HeaderReset, config.CheckFieldName)},
		{"rls-metadata", "put the request and the rules that decided into dynamic metadata", config.Flag(&r.Metadata)},
		{"rls-shadow", "let every request in Envoy's protocol pass, and count those over a limit", config.Flag(&r.Shadow)},
		{"rls-quota", "deny a request in Envoy's protocol only if all its limits deny it", config.Flag(&r.Quota)},
		{"rls-grant", "`NUMBER` of requests that a descriptor is granted at once; 0: no quotas", config.Number(&r.Grant, 0, 1<<30)},
	}
}

// Words for the header fields of envoyproxy/ratelimit, and for none, besides the presets.
const (
	envoyFields = "envoy"
	noFields    = "none"
)

func checkFields(name string) error {
	return config.OneOf(noFields, envoyFields, rule.IETF.String(), rule.Legacy.String(), rule.Draft03.String())(name)
}

// Options returns the options of the protocol's handler. With envoy, limits count as in
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

// check returns an error about values that cannot be combined.
func (r *RLS) check(c *Config) error {
	switch {
	case len(r.Headers) > 1 && slices.Contains(r.Headers, noFields):
		return c.Fault("rls-headers", "none is given together with others", "write none alone, or leave it out")
	case r.Keepalive == 0 || r.KeepaliveTimeout == 0:
		return c.Fault("grpc-keepalive", "must be more than 0", "write times such as 2m and 20s")
	}
	return nil
}
