package grpclimit

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/rule"
)

// Options say who is asking and what the answers look like. The zero Options are
// good for a server without proxies in front.
type Options struct {
	// Trusted are the networks of the proxies in front, such as 10.0.0.0/8: only their
	// forwarded metadata is believed, read from the right up to the first address that
	// is not trusted. Nil: none, the client is the peer.
	Trusted []netip.Prefix

	// TrustUnixSocket believes the forwarded metadata of peers without an address,
	// which are those on a Unix socket. False: their client is unknown.
	TrustUnixSocket bool

	// ForwardedHeader is the one key of metadata that is read from trusted peers:
	// "forwarded" (RFC 7239), or any other with an address or a list of them. "":
	// x-forwarded-for. It must be one that the proxies write or extend themselves.
	ForwardedHeader string

	// IPv6Bits is how much of an IPv6 address tells clients apart, 1 to 128 ([Limit]
	// only; rule files say it by masked_remote_address). 0: 64.
	IPv6Bits int

	// Name is what clients see as the policy's name, and part of every key ([Limit]
	// only). Limits with the same name and store are one and the same. "": the
	// numbers, such as "100/1m".
	Name string

	// Key returns whose bucket a call is charged to ([Limit] only). Nil: the client's
	// address.
	Key Key

	// PerMethod counts each method apart ([Limit] only). A server with an
	// UnknownServiceHandler then lets clients invent buckets.
	PerMethod bool

	// OnMissing is what happens to a call without a key ([Limit] only). The zero value
	// limits it by the client's address.
	OnMissing Missing

	// OnStoreFailure answers when the store cannot ([Limit] only; each rule has its
	// own). The zero value lets the call pass. rule.Local is rule.Deny: a
	// limit without rules has no share.
	OnStoreFailure rule.Failure

	// OnError is told of every call that the store could not decide, whatever the
	// policy made of it, or could not settle at its end, and of metadata that could not
	// be sent. It must not block. Nil: nobody is told but the limiter's observer, of the
	// first.
	OnError func(ctx context.Context, method string, err error)

	// EachMessage charges one unit for each message that a stream receives; opening
	// it pays for the first. One that is denied ends the stream. False: a stream is
	// one call, however long.
	EachMessage bool

	// Headers are the presets of limits that do not say themselves. Nil: rule.IETF and
	// rule.Legacy; rule.None alone: nothing but retry-after.
	Headers []rule.Preset

	// Reset is how x-ratelimit-reset of the preset legacy is written. The zero value
	// is UnixSeconds.
	Reset Reset

	// OverHeader is a key of metadata that is set to "true" on a call that passed
	// above its plain limit, in what a soft or elastic limit adds, such as
	// "x-ratelimit-over". "": none.
	OverHeader string

	// DegradedHeader is a key of metadata that is set to "true" where a failure policy
	// decided because the store could not, whatever it decided, such as
	// "x-ratelimit-degraded". "": none.
	DegradedHeader string

	// PolicyHeader is a key of metadata that names, in quotes as ratelimit does, the
	// policy that decided: the limit that denied the call, or the one nearest to denying,
	// or the list that it is in. It goes with all calls, whatever the presets of the
	// limit, and tells clients the names of lists. "": none.
	PolicyHeader string

	// Message is that of the status of a refusal. {wait} in it becomes how long to
	// wait, such as "3 minutes". "": DefaultMessage.
	Message string

	// NeverMessage stands in place of Message where waiting never helps. "":
	// DefaultNeverMessage.
	NeverMessage string

	// Exempt are the services whose calls are not limited at all, such as
	// "grpc.health.v1.Health". Nil: DefaultExempt; empty: none.
	Exempt []string

	// Skip says which other calls are not limited at all. Nil: none.
	Skip func(ctx context.Context, method string) bool

	// Denied returns the error that a call ends with which a limit denied, or a list
	// (the verdict names it in Listed then), or a policy because the store could not
	// decide (the verdict is Degraded then). The metadata is set already; the verdict
	// must not be kept. Nil, or a nil error: the status is made here.
	Denied func(ctx context.Context, method string, v *limiter.Verdict) error
}

// What the status of a refusal says where Options do not.
const (
	DefaultMessage      = "Request quota exceeded. Wait {wait} and try again."
	DefaultNeverMessage = "Request quota exceeded. The limit never allows this request."
)

// MaxPushback is the longest wait that a refusal asks of the retry policy in a
// caller's service config, which has no limit of its own. After a longer one the
// policy is told not to try again.
const MaxPushback = time.Minute

// DefaultExempt returns the services that are not limited where Options do not say:
// health, asked by load balancers, and reflection.
func DefaultExempt() []string {
	return []string{
		"grpc.health.v1.Health",
		"grpc.reflection.v1.ServerReflection",
		"grpc.reflection.v1alpha.ServerReflection",
	}
}

// Missing is what happens to a call that does not say whose bucket it is charged
// to.
type Missing = request.Missing

// What happens to such a call: it is limited by the client's address instead, apart
// from the keys, and denied where that is unknown as well; it passes, not limited; or
// it is answered with PERMISSION_DENIED.
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

// A Key says whose bucket a call is charged to; method is the full name, such as
// "/package.Service/Method". ok is false where the call does not say.
type Key func(ctx context.Context, method string) (key string, ok bool)

// ByMetadata returns the Key that is the value of a key of metadata. A call that
// lacks it, has it empty, or has it more than once does not say.
//
// The value is believed as it is: it names a caller only where something in front
// has checked it.
func ByMetadata(name string) Key {
	name = strings.ToLower(name)
	return func(ctx context.Context, _ string) (string, bool) {
		values := metadata.ValueFromIncomingContext(ctx, name)
		if len(values) != 1 {
			return "", false
		}
		return values[0], values[0] != ""
	}
}

// ByMethod is the Key by which all clients of a method share a bucket.
func ByMethod(_ context.Context, method string) (string, bool) { return method, true }
