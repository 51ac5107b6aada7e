package ask

import (
	"context"
	"net/netip"
	"strconv"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/rule"
)

// Missing is what happens to a request that does not say whose bucket it is charged
// to.
type Missing uint8

const (
	// ByAddress limits it by the client's address instead, apart from the keys. Where
	// that is unknown as well it is denied.
	ByAddress Missing = iota

	// Pass lets it pass, not limited.
	Pass

	// Refuse refuses it.
	Refuse
)

// Caller is who a request comes from.
type Caller interface {
	// Key returns the key that the program gives it; "" is none. Only a Bare that is Keyed
	// asks.
	Key() (key string, ok bool)

	// Client returns the client's address; invalid: unknown.
	Client() netip.Addr
}

// Bare asks one limit, without rules. It is immutable.
type Bare struct {
	limiter *limiter.Limiter
	limit   *stint.Limit
	how     BareOptions
	shown   string // what users call the limit
	prefix  []byte // of all keys
}

// BareOptions say whom a limit without rules is asked for.
type BareOptions struct {
	// Name is what users call the limit, and part of every key. "": its numbers.
	Name string

	// Keyed says that callers have keys.
	Keyed bool

	// OnMissing is what happens to those without; not Keyed, to those without address.
	OnMissing Missing

	// IPv6Bits is how much of an IPv6 address tells clients apart; 0: 64.
	IPv6Bits int

	// OnStoreFailure answers when the store cannot.
	OnStoreFailure rule.Failure
}

// NewBare returns what asks for limit through l.
func NewBare(l *limiter.Limiter, limit *stint.Limit, o BareOptions) *Bare {
	shown, prefix := Named(o.Name, limit)
	return &Bare{limiter: l, limit: limit, how: o, shown: shown, prefix: prefix}
}

// Named returns what users call a limit without rules, and what its keys begin with.
// name "" is its numbers. It panics for a nil limit and for the zero Limit.
func Named(name string, limit *stint.Limit) (shown string, prefix []byte) {
	if err := limit.Check(); err != nil {
		panic("stint: a middleware cannot be made: " + err.Error())
	}
	if name != "" {
		return name, lengthened(nil, name)
	}
	spec := limit.Spec()
	shown = web.Numbers(&spec)
	own := "\x00" + spec.Algorithm.String() + " " + shown + " " + strconv.FormatUint(uint64(spec.Burst), 10)
	return shown, lengthened(nil, own)
}

// lengthened appends s behind its length, so that it ends where it ends whatever
// follows.
func lengthened(dst []byte, s string) []byte {
	return append(append(strconv.AppendInt(dst, int64(len(s)), 10), ':'), s...)
}

// one describes a request that costs one unit.
var one = []limiter.Descriptor{{Cost: 1}}

// Ask decides a request of c into s.Verdict. Requests to different parts, such as the
// methods of a service, are counted apart; "" is none.
func (b *Bare) Ask(ctx context.Context, part string, c Caller, s *Scratch) (Outcome, error) {
	s.key = append(s.key[:0], b.prefix...)
	if part != "" {
		s.key = lengthened(s.key, part)
	}
	if what := b.key(c, s); what != Decided {
		return what, nil
	}
	s.request.Descriptors, s.request.OnFailure = one, b.how.OnStoreFailure
	return of(b.limiter.DecideInline(ctx, string(s.key), b.limit, &s.request, &s.Verdict))
}

// Kinds of keys: what the program says never shares a bucket with an address.
const (
	givenKey   = 'k'
	addressKey = 'a'
)

// key adds the key of a caller to that of the limit, if it has any.
func (b *Bare) key(c Caller, s *Scratch) Outcome {
	if b.how.Keyed {
		if key, ok := c.Key(); ok && key != "" {
			s.key = append(append(s.key, givenKey), key...)
			return Decided
		}
		if b.how.OnMissing == Pass {
			return Unasked
		}
	}
	client := web.GroupAddr(c.Client(), b.how.IPv6Bits)
	switch {
	case client.IsValid() && (!b.how.Keyed || b.how.OnMissing == ByAddress):
		s.key = client.AppendTo(append(s.key, addressKey))
		return Decided
	case b.how.OnMissing == Pass:
		return Unasked
	}
	return Unidentified
}

// Name returns how users call the limit, and its numbers.
func (b *Bare) Name(*limiter.Asked) (string, *stint.Limit) { return b.shown, b.limit }

// OnFailure returns the policy that answers where the outcome is Undecided.
func (b *Bare) OnFailure(*Scratch) (rule.Failure, *rule.Rule) { return b.how.OnStoreFailure, nil }
