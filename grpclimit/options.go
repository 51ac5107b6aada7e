package grpclimit

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/rule"
)

// Options configure how clients are identified and what answers look like. The zero Options fit a
// server without proxies in front.
type Options struct {
	// Trusted are the networks of the proxies in front, such as 10.0.0.0/8. Only their forwarded
	// metadata is used, read from the right up to the first untrusted address. If nil, the client
	// is the peer.
	Trusted []netip.Prefix

	// TrustUnixSocket makes forwarded metadata of peers without an address trusted; these are peers
	// on a Unix socket. If false, their client is unknown.
	TrustUnixSocket bool

	// ForwardedHeader is the metadata key to read from trusted peers: "forwarded" (RFC 7239), or
	// any key with an address or a list of addresses. "" is x-forwarded-for. The proxies must set
	// or extend it themselves.
	ForwardedHeader string

	// IPv6Bits is the length of the prefix by which IPv6 clients are distinguished, 1 to 128
	// ([Limit] only; rule files have masked_remote_address). 0 means 64.
	IPv6Bits int

	// Name is the name of the policy that clients see, and part of every key ([Limit] only). Limits
	// with the same name and store are the same limit. "" means the numbers, such as "100/1m".
	Name string

	// Key returns the key of the bucket that a call is charged to ([Limit] only). If nil, it is the
	// client's address.
	Key Key

	// PerMethod uses separate buckets for each method ([Limit] only). If the server has an
	// UnknownServiceHandler, clients can then create buckets by inventing methods.
	PerMethod bool

	// OnMissing decides a call without a key ([Limit] only). The zero value limits it by the
	// client's address.
	OnMissing Missing

	// OnStoreFailure is the policy if the store fails ([Limit] only; each rule has its own). The
	// zero value lets the call pass. stint.Local means stint.Deny, because a limit without rules has
	// no share.
	OnStoreFailure stint.Failure

	// APIKeys returns the subject KEY=VALUE of an API key, such as user=42, and the name of its plan,
	// "" for none ([New] only), as in package httplimit. If nil, no key identifies anybody.
	APIKeys func(key string) (subject, plan string, err error)

	// OnError is called for every call that the store could not decide, whatever the policy
	// decided, for every call that it could not settle, and for metadata that could not be sent. It
	// must not block. If nil, only the limiter's observer learns of the first.
	OnError func(ctx context.Context, method string, err error)

	// EachMessage charges one unit for each message that a stream receives; opening the stream pays
	// for the first. A denied message ends the stream. If false, a stream counts as one call.
	EachMessage bool

	// Headers are the presets of limits without presets of their own. Nil means rule.IETF and
	// rule.Legacy; rule.None alone means nothing but retry-after.
	Headers []rule.Preset

	// Reset is the format of x-ratelimit-reset in the preset legacy. The zero value is UnixSeconds.
	Reset Reset

	// OverHeader is a metadata key that is set to "true" for a call that passed above its plain
	// limit, in the part that a soft or elastic limit adds, such as "x-ratelimit-over". "" means
	// none.
	OverHeader string

	// DegradedHeader is a metadata key that is set to "true" if a failure policy decided because
	// the store failed, such as "x-ratelimit-degraded". "" means none.
	DegradedHeader string

	// PolicyHeader is a metadata key for the name of the deciding policy, in quotes as in
	// ratelimit: the limit that denied the call or is closest to denying, or the list that contains
	// it. It is sent with all calls, whatever the presets, and reveals the names of lists to
	// clients. "" means none.
	PolicyHeader string

	// Message is the message of the status of a refusal. {wait} in it is replaced by the time to
	// wait, such as "3 minutes". "" means DefaultMessage.
	Message string

	// NeverMessage replaces Message if waiting never helps. "" means DefaultNeverMessage.
	NeverMessage string

	// Exempt are the services whose calls are not limited, such as "grpc.health.v1.Health". Nil
	// means DefaultExempt, empty means none.
	Exempt []string

	// Skip reports whether another call is not limited. If nil, all others are limited.
	Skip func(ctx context.Context, method string) bool

	// Denied returns the error of a denied call. It is called if a limit denied the call; if a list
	// denied it (then the verdict has its name in Listed, for a ban also Ban); or if a failure policy denied it (then
	// the verdict is Degraded). The metadata is set already. Denied must not keep the verdict. If
	// Denied or its error is nil, the default status is used.
	Denied func(ctx context.Context, method string, v *limiter.Verdict) error
}

// The defaults of the messages of a refusal.
const (
	DefaultMessage      = "Request quota exceeded. Wait {wait} and try again."
	DefaultNeverMessage = "Request quota exceeded. The limit never allows this request."
)

// MaxPushback is the longest wait that a refusal requests from the retry policy in a caller's
// service config, which has no limit of its own. For a longer wait the policy is told not to retry.
const MaxPushback = time.Minute

// DefaultExempt returns the services that are not limited by default: health, which load balancers
// call, and reflection.
func DefaultExempt() []string {
	return []string{
		"grpc.health.v1.Health",
		"grpc.reflection.v1.ServerReflection",
		"grpc.reflection.v1alpha.ServerReflection",
	}
}

// Missing is the way to handle a call without a key.
type Missing = request.Missing

// The ways to handle such a call: limit it by the client's address, in buckets separate from those
// of keys, and deny it if the address is unknown too; let it pass without a limit; or answer it
// with PERMISSION_DENIED.
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

// Key returns the key of the bucket that a call is charged to; method is the full method name, such
// as "/package.Service/Method". ok is false if the call has no key.
type Key func(ctx context.Context, method string) (key string, ok bool)

// ByMetadata returns a Key that returns the value of a metadata key. ok is false if the value is
// missing or empty, or if there are several.
//
// The value is not verified: it identifies a caller only if a proxy in front has verified it.
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

// ByMethod is a Key with which all clients of a method share a bucket.
func ByMethod(_ context.Context, method string) (string, bool) { return method, true }
