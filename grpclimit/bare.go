package grpclimit

import (
	"strconv"
	"strings"

	"stint"
	"stint/internal/clientip"
	"stint/internal/headers"
	"stint/limiter"
	"stint/rule"
)

// Limit holds each client of a server to one limit, counted in store. Who a client
// is, Options say: its address, or their Key.
func Limit(store stint.Store, limit *stint.Limit, options Options) *Server {
	l := limiter.New(store, nil, limiter.Options{})
	b := &bare{limiter: l, limit: limit, options: options, finder: finder(&options)}
	b.forwarded = strings.ToLower(b.finder.Header())
	b.shown, b.prefix = named(options.Name, limit)
	return newServer(b, l, options)
}

// named returns what users call a limit, and what its keys begin with.
func named(name string, limit *stint.Limit) (shown string, prefix []byte) {
	spec := limit.Spec()
	shown, own := name, name
	if name == "" {
		shown = headers.Numbers(&spec)
		own = "\x00" + spec.Algorithm.String() + " " + shown + " " + strconv.FormatUint(uint64(spec.Burst), 10)
	}
	return shown, lengthened(nil, own)
}

// lengthened appends s behind its length, so that it ends where it ends whatever
// follows.
func lengthened(dst []byte, s string) []byte {
	return append(append(strconv.AppendInt(dst, int64(len(s)), 10), ':'), s...)
}

// bare asks one limit, without rules.
type bare struct {
	limiter   *limiter.Limiter
	limit     *stint.Limit
	options   Options
	finder    *clientip.Finder
	forwarded string // the key of metadata that finder reads
	shown     string // the name of the policy
	prefix    []byte // of all keys
}

// Kinds of keys: what Options.Key says never shares a bucket with an address.
const (
	givenKey   = 'k'
	addressKey = 'a'
)

func (b *bare) ask(c *call, s *scratch) (outcome, error) {
	if what := b.key(c, s); what != decided {
		return what, nil
	}
	s.request.Descriptors = one
	return outcomeOf(b.limiter.DecideInline(c.ctx, string(s.key), b.limit, &s.request, &s.verdict))
}

// one describes a call that costs one unit.
var one = []limiter.Descriptor{{Cost: 1}}

// key writes the key of a call to s, if it has any.
func (b *bare) key(c *call, s *scratch) outcome {
	s.key = append(s.key[:0], b.prefix...)
	if b.options.PerMethod {
		s.key = lengthened(s.key, c.method)
	}
	if b.options.Key != nil {
		if key, ok := b.options.Key(c.ctx, c.method); ok {
			s.key = append(append(s.key, givenKey), key...)
			return decided
		}
		if b.options.OnMissing == Pass {
			return unasked
		}
	}
	client := clientip.Group(c.client(b.finder, b.forwarded), b.options.IPv6Bits)
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
