package httplimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/limiter/response"
	"stint/rule"
)

// Options configure how clients are identified and what answers look like. The zero Options fit a
// server without proxies in front.
type Options struct {
	// Trusted are the networks of the proxies in front, such as 10.0.0.0/8. Only their forwarded
	// headers are used, read from the right up to the first untrusted address. If nil, the client
	// is the peer. With a too wide network, hosts inside it can claim to be any client.
	Trusted []netip.Prefix

	// TrustUnixSocket makes forwarded headers of peers without an address trusted; these are peers
	// on a Unix socket. If false, their client is unknown.
	TrustUnixSocket bool

	// ForwardedHeader is the header to read from trusted peers: "Forwarded" (RFC 7239), or any
	// header with an address or a list of addresses, such as "X-Real-IP" or "CF-Connecting-IP". ""
	// is X-Forwarded-For. The proxies must set or extend it themselves; a header that they only
	// pass on is controlled by the client.
	ForwardedHeader string

	// Client returns the address of the client, the zero Addr if it is unknown, and whether a trusted
	// proxy forwarded the request ([New] only). If nil, Trusted, TrustUnixSocket and ForwardedHeader
	// decide.
	Client func(r *http.Request) (addr netip.Addr, forwarded bool)

	// IPv6Bits is the length of the prefix by which IPv6 clients are distinguished, 1 to 128
	// ([Limit] only; rule files have masked_remote_address). 0 means 64. With a longer prefix one
	// client can appear as many; with a shorter one neighbors share a bucket.
	IPv6Bits int

	// Name is the name of the policy that clients see, and part of every key ([Limit] only). Limits
	// with the same name and store are the same limit, so routes that are to be counted separately
	// need names. "" means the numbers, such as "100/1m". With a name, usage is kept when the
	// numbers change.
	Name string

	// Key returns the key of the bucket that a request is charged to ([Limit] only), such as the
	// user of a verified token. It returns "" or ok false if the request has none, so that requests
	// without a key never share a bucket. If nil, the key is the client's address.
	Key func(r *http.Request) (key string, ok bool)

	// OnMissing decides a request without a key ([Limit] only). The zero value limits it by the
	// client's address.
	OnMissing Missing

	// OnStoreFailure is the policy if the store fails ([Limit] only; each rule has its own). The
	// zero value lets the request pass. stint.Local means stint.Deny, because a limit without rules
	// has no share.
	OnStoreFailure stint.Failure

	// APIKeys returns the subject KEY=VALUE of an API key, such as user=42, and the name of its plan,
	// "" for none ([New] only). Rules with `api_key: {from: records}` ask it. The subject is "" if the
	// key is not valid; the error means that this could not be found out. It must be quick and must
	// not log the key. Package records/inforce has one for a file of records. If nil, no key identifies
	// anybody.
	APIKeys func(key string) (subject, plan string, err error)

	// Identity returns the name that authentication proved, for the action identity; "" if there is
	// none ([New] only). It must never return a name that is only claimed. If nil, nobody is
	// identified.
	Identity func(r *http.Request) string

	// Phase is Early for middleware before authentication ([New] only). It decides by the elements of
	// http.rate_limits without the action identity; middleware of the same domain with the zero Phase,
	// behind authentication, then decides by the others. If that one denies the request, what the
	// first one took is given back; if authentication denies it, that stays taken. The zero Phase
	// without such middleware before it decides by all elements.
	Phase Phase

	// Earlier returns the place for the decisions of the phase Early about a request, for a server that
	// keeps values of a request elsewhere than in its context; nil if this request has none ([New] only).
	// Without a place the decisions are in the context, which costs a copy of the request.
	Earlier func(r *http.Request) *Earlier

	// Several is for middlewares of several domains behind each other: the RateLimit fields of a request
	// that passes show the limits of all, and others the tightest of all, instead of those of the last
	// domain alone. It needs Earlier, and costs a copy of the numbers.
	Several bool

	// Failed is called if a handler behind a [Gate] returned an error and has sent no header, while
	// limits that count responses wait for the status. Failed calls settle once, when it knows the
	// status that the client gets, and before the request ends. If nil, the status is 500.
	Failed func(r *http.Request, err error, settle func(status int))

	// Observe is called for each request once it is decided, before anything is sent: pass is whether it goes on to the next
	// handler. The reason of a denial is "" if the request itself was wrong. Observe must not block and
	// must not keep the verdict.
	Observe func(r *http.Request, v *limiter.Verdict, pass bool)

	// OnError is called for every request that the store could not decide, whatever the policy
	// decided, for every request that it could not settle, and for a rule's denial that could not
	// be written. It must not block. If nil, only the limiter's observer learns of the first.
	OnError func(r *http.Request, err error)

	// Headers are the presets of limits without presets of their own. Nil means rule.IETF and
	// rule.Legacy; rule.None alone means no header but Retry-After.
	Headers []rule.Preset

	// Reset is the format of X-RateLimit-Reset in the preset legacy, and of the renewal in the
	// body. The zero value is UnixSeconds.
	Reset Reset

	// OverHeader is the name of a header that is set to "true" on a request that passed above its
	// plain limit, in the part that a soft or elastic limit adds, such as "X-RateLimit-Over". It is
	// in the header map with this spelling. "" means none.
	OverHeader string

	// DegradedHeader is the name of a header that is set to "true" if a failure policy decided
	// because the store failed, such as "X-RateLimit-Degraded". It is in the header map with this
	// spelling. "" means none.
	DegradedHeader string

	// PolicyHeader is the name of a header with the name of the deciding policy, in quotes as in
	// RateLimit: the limit that denied the request or is closest to denying, or the list that
	// contains it. It is set on all answers, whatever the presets, and reveals the names of lists
	// to clients. "" means none.
	PolicyHeader string

	// Status is the status of a refusal by a limit. 0 means 429.
	Status int

	// Code and Message are part of the body of a refusal by a limit. {wait} in the message is
	// replaced by the time to wait, rounded up to the largest unit that is not longer, such as "3
	// minutes". "" means DefaultCode and DefaultMessage.
	Code, Message string

	// NeverMessage replaces Message if waiting never helps. "" means DefaultNeverMessage.
	NeverMessage string

	// Queue takes the requests that a limit with `excess: queue` denies ([New] only). If nil, they are
	// denied as with `excess: drop`.
	Queue Queue

	// Conn returns the connection of a request, see [ConnContext]. It returns nil if it is not known. If
	// Conn is nil, the connection is that of ConnContext.
	Conn func(r *http.Request) net.Conn

	// Context returns the context for the decision about a request, for a limiter with a tracer. It must
	// derive from the context of the request; otlp.Header returns one with the trace that the header of
	// the request names. If nil, it is the context of the request, in which middleware of OpenTelemetry
	// puts the trace.
	Context func(r *http.Request) context.Context

	// Tracer follows the decisions ([Limit] only; New takes the one of its limiter). If nil, there are
	// no traces.
	Tracer limiter.Tracer

	// Skip reports whether a request is not limited at all. If nil, all requests are limited.
	Skip func(r *http.Request) bool

	// Denied, if not nil, writes the answer to a denied request instead of the middleware. It is
	// called if a limit denied the request, even one with a denial of its own; if a list denied it
	// (then the verdict has its name in Listed, and its status); if the client is banned (then the
	// verdict has Ban, too); if a penalty denied it (then the verdict is Penalized); or if a failure
	// policy denied it (then the verdict is Degraded). The headers are set already; status and body are
	// not. Denied
	// must not keep the verdict.
	Denied func(w http.ResponseWriter, r *http.Request, v *limiter.Verdict)
}

// The defaults of the texts in the body of a refusal.
const (
	DefaultCode         = response.DefaultCode
	DefaultMessage      = response.DefaultMessage
	DefaultNeverMessage = response.DefaultNeverMessage
)

// Missing is the way to handle a request without a key.
type Missing = request.Missing

// The ways to handle such a request: limit it by the client's address, in buckets separate from
// those of keys, and deny it if the address is unknown too; let it pass without a limit; or answer
// it with 403.
const (
	ByAddress = request.ByAddress
	Pass      = request.Pass
	Refuse    = request.Refuse
)

// Reset is a format for the time of a reset, which is always rounded up.
type Reset = web.Reset

// The formats of a reset: seconds or milliseconds since the Unix epoch, or seconds from now.
const (
	UnixSeconds = web.UnixSeconds
	UnixMillis  = web.UnixMillis
	Delta       = web.Delta
)
