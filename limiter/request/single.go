package request

import (
	"context"
	"net/netip"
	"strconv"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/rule"
)

// Missing says what to do with a request that has no key.
type Missing uint8

const (
	// ByAddress limits the request by the client's address instead; an address never shares
	// a bucket with a key. A request without a known address is denied.
	ByAddress Missing = iota

	// Pass lets the request pass without a limit.
	Pass

	// Refuse denies the request.
	Refuse
)

// Caller identifies the sender of a request.
type Caller interface {
	// Key returns the key that the program gives the request; "" or false for none. It is
	// called only where SingleOptions.Keyed is set.
	Key() (key string, ok bool)

	// Client returns the client's address; the zero Addr if it is unknown.
	Client() netip.Addr
}

// Single decides requests by a single limit, without rules. It is immutable.
type Single struct {
	limiter *limiter.Limiter
	limit   *stint.Limit
	how     SingleOptions
	shown   string // the name that clients see of the limit
	prefix  []byte // of all keys
}

// SingleOptions configure a [Single].
type SingleOptions struct {
	// Name is the name that clients see of the limit, and part of every key. "" stands for
	// the numbers of the limit.
	Name string

	// Keyed is set where the program gives requests a key, see [Caller].
	Keyed bool

	// OnMissing says what to do with a request without a key; if Keyed is not set, with one
	// whose address is unknown.
	OnMissing Missing

	// IPv6Bits is the length of the prefix by which IPv6 clients are told apart; 0 means 64.
	IPv6Bits int

	// OnStoreFailure is the policy that applies while the store cannot decide.
	OnStoreFailure rule.Failure
}

// NewSingle returns a Single that decides by limit, with the store of l.
func NewSingle(l *limiter.Limiter, limit *stint.Limit, o SingleOptions) *Single {
	shown, prefix := NameAndPrefix(o.Name, limit)
	return &Single{limiter: l, limit: limit, how: o, shown: shown, prefix: prefix}
}

// NameAndPrefix returns the name that clients see of a limit without rules, and the prefix of its
// keys. For name "" both are made of the numbers of the limit. It panics for a nil limit and for
// the zero Limit.
func NameAndPrefix(name string, limit *stint.Limit) (shown string, prefix []byte) {
	if err := limit.Check(); err != nil {
		panic("stint: a middleware cannot be made: " + err.Error())
	}
	if name != "" {
		return name, appendWithLength(nil, name)
	}
	spec := limit.Spec()
	shown = web.Numbers(&spec)
	own := "\x00" + spec.Algorithm.String() + " " + shown + " " + strconv.FormatUint(uint64(spec.Burst), 10)
	return shown, appendWithLength(nil, own)
}

// appendWithLength appends the length of s and s, so that two different lists of texts never
// make the same key.
func appendWithLength(dst []byte, s string) []byte {
	return append(append(strconv.AppendInt(dst, int64(len(s)), 10), ':'), s...)
}

// unitCost describes a request that costs unitCost unit.
var unitCost = []limiter.Descriptor{{Cost: 1}}

// Decide decides a request of c into s.Verdict. Requests to different parts, such as the
// methods of a service, have separate buckets; "" is the whole.
func (b *Single) Decide(ctx context.Context, part string, c Caller, s *Scratch) (Outcome, error) {
	s.key = append(s.key[:0], b.prefix...)
	if part != "" {
		s.key = appendWithLength(s.key, part)
	}
	if what := b.key(c, s); what != Decided {
		return what, nil
	}
	s.request.Descriptors, s.request.OnFailure = unitCost, b.how.OnStoreFailure
	return outcomeOf(b.limiter.DecideInline(ctx, string(s.key), b.limit, &s.request, &s.Verdict))
}

// Kinds of keys. With them a key of the program never shares a bucket with an address.
const (
	givenKey   = 'k'
	addressKey = 'a'
)

// key appends the key of the caller to s.key. The outcome is Decided where there is one.
func (b *Single) key(c Caller, s *Scratch) Outcome {
	if b.how.Keyed {
		if key, ok := c.Key(); ok && key != "" {
			s.key = append(append(s.key, givenKey), key...)
			return Decided
		}
		if b.how.OnMissing == Pass {
			return NoLimit
		}
	}
	client := web.GroupAddr(c.Client(), b.how.IPv6Bits)
	switch {
	case client.IsValid() && (!b.how.Keyed || b.how.OnMissing == ByAddress):
		s.key = client.AppendTo(append(s.key, addressKey))
		return Decided
	case b.how.OnMissing == Pass:
		return NoLimit
	}
	return Unidentified
}

// Name returns the name that clients see of the limit, and the limit.
func (b *Single) Name(*limiter.Asked) (string, *stint.Limit) { return b.shown, b.limit }

// OnFailure returns the failure policy of an Undecided request.
func (b *Single) OnFailure(*Scratch) (rule.Failure, *rule.Rule) { return b.how.OnStoreFailure, nil }
