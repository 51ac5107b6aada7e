package httplimit

import (
	"net/http"
	"net/netip"

	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/limiter/response"
	"stint/rule"
)

// Options say who is asking and what the answers look like. The zero Options are
// good for a server without proxies in front.
type Options struct {
	// Trusted are the networks of the proxies in front, such as 10.0.0.0/8: only their
	// forwarded headers are believed, read from the right up to the first address that
	// is not trusted. Nil: none, the client is the peer. Too wide a network lets those
	// inside it choose whom they are taken for.
	Trusted []netip.Prefix

	// TrustUnixSocket believes the forwarded header of peers without an address, which
	// are those on a Unix socket. False: their client is unknown.
	TrustUnixSocket bool

	// ForwardedHeader is the one header that is read from trusted peers: "Forwarded"
	// (RFC 7239), or any other with an address or a list of them, such as "X-Real-IP"
	// or "CF-Connecting-IP". "": X-Forwarded-For. It must be one that the proxies
	// write or extend themselves; what they only pass on is the client's own words.
	ForwardedHeader string

	// IPv6Bits is how much of an IPv6 address tells clients apart, 1 to 128 ([Limit]
	// only; rule files say it by masked_remote_address). 0: 64. More bits let one client
	// be many; fewer put neighbours into one bucket.
	IPv6Bits int

	// Name is what clients see as the policy's name, and part of every key ([Limit]
	// only). Limits with the same name and store are one and the same, so routes that
	// are to be counted apart need names. "": the numbers, such as "100/1m". With a
	// name, keys keep what they used when the numbers change.
	Name string

	// Key returns whose bucket a request is charged to ([Limit] only), such as the
	// user behind a checked token; "" or ok false where the request does not say, so that
	// those who lack a key never share a bucket. Nil: the client's address.
	Key func(r *http.Request) (key string, ok bool)

	// OnMissing is what happens to a request without a key ([Limit] only). The zero
	// value limits it by the client's address.
	OnMissing Missing

	// OnStoreFailure answers when the store cannot ([Limit] only; each rule has its
	// own). The zero value lets the request pass. rule.Local is rule.Deny: a
	// limit without rules has no share.
	OnStoreFailure rule.Failure

	// OnError is told of every request that the store could not decide, whatever the
	// policy made of it, or could not settle once its answer was known, and of a rule's
	// own denial that could not be written. It must not block. Nil: nobody is told but
	// the limiter's observer, of the first.
	OnError func(r *http.Request, err error)

	// Headers are the presets of limits that do not say themselves. Nil: rule.IETF and
	// rule.Legacy; rule.None alone: no header but Retry-After.
	Headers []rule.Preset

	// Reset is how X-RateLimit-Reset of the preset legacy, and the renewal in the
	// body, are written. The zero value is UnixSeconds.
	Reset Reset

	// OverHeader is the name of a header that is set to "true" on a request that
	// passed above its plain limit, in what a soft or elastic limit adds, such as
	// "X-RateLimit-Over". It stands in the map as it is spelled here. "": none.
	OverHeader string

	// DegradedHeader is the name of a header that is set to "true" where a failure policy
	// decided because the store could not, whatever it decided, such as
	// "X-RateLimit-Degraded". It stands in the map as it is spelled here. "": none.
	DegradedHeader string

	// PolicyHeader is the name of a header that names, in quotes as RateLimit does, the
	// policy that decided: the limit that denied the request, or the one nearest to
	// denying, or the list that it is in. It stands on all answers, whatever the presets
	// of the limit, and tells clients the names of lists. "": none.
	PolicyHeader string

	// Status is the status of a refusal by a limit. 0: 429.
	Status int

	// Code and Message stand in the body of a refusal by a limit. {wait} in the
	// message becomes how long to wait, rounded up to the largest unit that is not
	// longer, such as "3 minutes". "": DefaultCode and DefaultMessage.
	Code, Message string

	// NeverMessage stands in place of Message where waiting never helps. "":
	// DefaultNeverMessage.
	NeverMessage string

	// Skip says which requests are not limited at all. Nil: none.
	Skip func(r *http.Request) bool

	// Denied writes the answer to a request that a limit denied, even one with a denial
	// of its own, or a list (the verdict names it in Listed then, with the status it asks
	// for), or a policy because the store could not decide (the verdict is Degraded then),
	// in place of the one that is written here. The headers are set already; status and
	// body are not. The verdict must not be kept. Nil: the answer is written here.
	Denied func(w http.ResponseWriter, r *http.Request, v *limiter.Verdict)
}

// What the body of a refusal says where Options do not.
const (
	DefaultCode         = response.DefaultCode
	DefaultMessage      = response.DefaultMessage
	DefaultNeverMessage = response.DefaultNeverMessage
)

// Missing is what happens to a request that does not say whose bucket it is
// charged to.
type Missing = request.Missing

// What happens to such a request: it is limited by the client's address instead,
// apart from the keys, and denied where that is unknown as well; it passes, not
// limited; or it is answered with 403.
const (
	ByAddress = request.ByAddress
	Pass      = request.Pass
	Refuse    = request.Refuse
)

// Reset is how the time of a reset is written, always rounded up.
type Reset = web.Reset

// The forms of a reset: seconds or milliseconds since the Unix epoch, or seconds
// from now.
const (
	UnixSeconds = web.UnixSeconds
	UnixMillis  = web.UnixMillis
	Delta       = web.Delta
)
