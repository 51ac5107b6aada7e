package httplimit

import (
	"net/http"
	"strconv"

	"stint"
	"stint/internal/clientip"
	"stint/internal/headers"
	"stint/limiter"
	"stint/rule"
)

// Limit returns middleware that holds each client to one limit, counted in store.
// Who a client is, Options say: its address, or their Key.
func Limit(store stint.Store, limit *stint.Limit, options Options) func(http.Handler) http.Handler {
	l := limiter.New(store, nil, limiter.Options{})
	b := &bare{
		limiter: l, limit: limit, options: options, shown: options.Name,
		finder: finder(&options), prefix: []byte(options.Name),
	}
	b.forwarded = http.CanonicalHeaderKey(b.finder.Header())
	if options.Name == "" {
		b.shown, b.prefix = numbers(limit.Spec())
	}
	b.prefix = append(strconv.AppendInt(nil, int64(len(b.prefix)), 10), ":"+string(b.prefix)...)
	return middleware(b, l, options)
}

// numbers returns what a limit without a name is called, such as "100/1m", and
// what its keys begin with.
func numbers(spec stint.Spec) (shown string, prefix []byte) {
	shown = headers.Numbers(&spec)
	if spec.Algorithm == stint.Unlimited {
		return shown, nil
	}
	prefix = append(prefix, "\x00"+spec.Algorithm.String()+" "+shown+" "...)
	return shown, strconv.AppendUint(prefix, uint64(spec.Burst), 10)
}

// bare asks one limit, without rules.
type bare struct {
	limiter   *limiter.Limiter
	limit     *stint.Limit
	options   Options
	finder    *clientip.Finder
	forwarded string // the header that finder reads, as net/http spells it
	shown     string // the name of the policy
	prefix    []byte // of all keys
}

// Kinds of keys: what Options.Key says never shares a bucket with an address.
const (
	givenKey   = 'k'
	addressKey = 'a'
)

func (b *bare) ask(r *http.Request, s *scratch) (outcome, error) {
	if what := b.key(r, s); what != decided {
		return what, nil
	}
	s.request.Descriptors = one
	return outcomeOf(b.limiter.DecideInline(r.Context(), string(s.key), b.limit, &s.request, &s.verdict))
}

// one describes a request that costs one unit.
var one = []limiter.Descriptor{{Cost: 1}}

// key writes the key of a request to s, if it has any.
func (b *bare) key(r *http.Request, s *scratch) outcome {
	s.key = append(s.key[:0], b.prefix...)
	if b.options.Key != nil {
		if key, ok := b.options.Key(r); ok {
			s.key = append(append(s.key, givenKey), key...)
			return decided
		}
		if b.options.OnMissing == Pass {
			return unasked
		}
	}
	client := clientip.Group(b.finder.Client(clientip.Peer(r.RemoteAddr), r.Header[b.forwarded]), b.options.IPv6Bits)
	switch {
	case client.IsValid() && (b.options.Key == nil || b.options.OnMissing == ByAddress):
		s.key = client.AppendTo(append(s.key, addressKey))
		return decided
	case b.options.OnMissing == Pass:
		return unasked
	}
	return unidentified
}

// Name is part of answer.Namer.
func (b *bare) Name(*limiter.Asked) (string, *stint.Limit) { return b.shown, b.limit }

func (b *bare) onFailure(*scratch) (rule.Failure, *rule.Rule) { return b.options.OnStoreFailure, nil }
