package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/limiter/response"
	"stint/rule"
)

// ClientOptions say what shares a limit and what a call does that may not go out
// yet. The zero ClientOptions wait.
type ClientOptions struct {
	// Name is part of every key. Limits with the same name and store are one and the
	// same, in this process and, where the store is shared, in others. "": the numbers,
	// such as "100/1m".
	Name string

	// Key returns which calls share a budget; target is that of the connection, method
	// the full name. Nil: all calls to a target.
	Key func(ctx context.Context, target, method string) string

	// FailFast refuses a call that would have to wait. False: it waits, first come
	// first served for each key, and is refused as soon as its deadline is known to
	// be too near: at once if the first of those that wait cannot go before either.
	FailFast bool

	// EachMessage charges one unit for each message that a stream sends; opening it
	// pays for the first. SendMsg waits, or refuses, as a call does. False: a stream
	// is one call.
	EachMessage bool

	// MaxPause is the longest that a server may make the calls of a key pause; what
	// asks for more is cut. 0: DefaultMaxPause. Negative: what servers ask for is not
	// heeded.
	MaxPause time.Duration

	// OnStoreFailure answers when the store cannot. The zero value lets the call out.
	OnStoreFailure rule.Failure

	// OnError is told of every call that the store could not decide. It must not
	// block. Nil: nobody is told.
	OnError func(ctx context.Context, method string, err error)
}

// DefaultMaxPause is the longest pause where ClientOptions do not say.
const DefaultMaxPause = time.Minute

// Refusal is the error of a call that the client's own limit, or a pause that its
// server asked for, kept from going out. To package status it is
// RESOURCE_EXHAUSTED with a RetryInfo, like a server's.
type Refusal struct {
	// RetryAfter is how long to wait; stint.Never where that never helps.
	RetryAfter time.Duration

	// Paused says that the server asked for a pause.
	Paused bool

	text string
}

// Error returns what kept the call, and for how long.
func (r *Refusal) Error() string {
	if r.RetryAfter == stint.Never {
		return r.text + "; no waiting helps"
	}
	return r.text + "; wait " + string(web.AppendWait(nil, r.RetryAfter))
}

// GRPCStatus returns the refusal as package status sees it.
func (r *Refusal) GRPCStatus() *status.Status {
	return status.Convert(refusal(codes.ResourceExhausted, r.Error(), r.RetryAfter))
}

// Client keeps the calls of a client under a limit: its methods Unary and Stream
// are the interceptors. It is safe for concurrent use; the connections that use it
// share its budget.
//
// Where a server answers RESOURCE_EXHAUSTED with a RetryInfo, the call ends with
// that error, and those that follow with the same key wait for as long, at most
// MaxPause. No call is sent again.
type Client struct {
	limiter *limiter.Limiter
	limit   *stint.Limit
	options ClientOptions
	prefix  string // of all keys
	queue   queue
	pauses  pauses
	pool    sync.Pool // of *limiter.Verdict
}

var (
	_ grpc.UnaryClientInterceptor  = (*Client)(nil).Unary
	_ grpc.StreamClientInterceptor = (*Client)(nil).Stream
)

// NewClient returns a client that is held to limit, counted in store.
func NewClient(store stint.Store, limit *stint.Limit, options ClientOptions) *Client {
	options.MaxPause = cmp.Or(options.MaxPause, DefaultMaxPause)
	_, prefix := request.NameAndPrefix(options.Name, limit)
	c := &Client{
		limiter: limiter.New(store, nil, limiter.Options{}), limit: limit,
		options: options, prefix: string(prefix),
		queue: queue{lines: make(map[string]*line)}, pauses: pauses{until: make(map[string]time.Time)},
	}
	c.pool.New = func() any { return new(limiter.Verdict) }
	return c
}

// Unary sends a call when the limit allows.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	key := c.key(ctx, cc.Target(), method)
	if err := c.admit(ctx, key, method); err != nil {
		return err
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	c.heed(key, err)
	return err
}

// Stream opens a stream when the limit allows.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	key := c.key(ctx, cc.Target(), method)
	if err := c.admit(ctx, key, method); err != nil {
		return nil, err
	}
	stream, err := open(ctx, desc, cc, method, opts...)
	c.heed(key, err)
	if err != nil {
		return nil, err
	}
	return &pacedStream{ClientStream: stream, client: c, key: key, method: method}, nil
}

// pacedStream heeds how a stream ends, and holds its messages to the limit.
type pacedStream struct {
	grpc.ClientStream
	client      *Client
	key, method string

	begun bool // only the goroutine that sends knows
}

// SendMsg sends a message when the limit allows.
func (p *pacedStream) SendMsg(m any) error {
	if p.client.options.EachMessage && p.begun {
		if err := p.client.admit(p.Context(), p.key, p.method); err != nil {
			return err
		}
	}
	p.begun = true
	return p.ClientStream.SendMsg(m)
}

// RecvMsg receives a message.
func (p *pacedStream) RecvMsg(m any) error {
	err := p.ClientStream.RecvMsg(m)
	p.client.heed(p.key, err)
	return err
}

func (c *Client) key(ctx context.Context, target, method string) string {
	if c.options.Key != nil {
		target = c.options.Key(ctx, target, method)
	}
	return c.prefix + target
}

// heed pauses a key if its server asks for that.
func (c *Client) heed(key string, err error) {
	if own := (*Refusal)(nil); err == nil || errors.As(err, &own) {
		return
	}
	if pause := min(told(err), c.options.MaxPause); pause > 0 {
		c.pauses.set(key, time.Now().Add(pause))
	}
}

// admit returns when a call may go out. The error is what one that may not ends
// with.
func (c *Client) admit(ctx context.Context, key, method string) error {
	v := c.pool.Get().(*limiter.Verdict)
	defer c.pool.Put(v)
	if c.options.FailFast || !c.queue.waits(key) {
		// Those that wait wait for one another, but nobody waits for a store that is
		// slow to say yes.
		refused, err := c.try(ctx, key, method, v)
		if err != nil {
			return err
		}
		if refused == nil {
			return c.hold(ctx, method, v)
		}
		if c.options.FailFast || refused.RetryAfter == stint.Never {
			return refused
		}
	}
	if err := c.line(ctx, key, method, v); err != nil {
		return err
	}
	return c.hold(ctx, method, v)
}

// line waits until those that came before are let out, and then until the limit
// allows.
func (c *Client) line(ctx context.Context, key, method string, v *limiter.Verdict) error {
	if late, err := c.queue.join(ctx, key); err != nil {
		return hangUp(ctx, &Refusal{RetryAfter: late, text: "the calls that wait already wait longer than this one can"})
	}
	defer c.queue.leave(key)
	for {
		refused, err := c.try(ctx, key, method, v)
		if err != nil || refused == nil {
			return err
		}
		if refused.RetryAfter == stint.Never {
			return refused
		}
		c.queue.announce(key, time.Now().Add(refused.RetryAfter))
		if sleep(ctx, refused.RetryAfter) != nil {
			return hangUp(ctx, refused)
		}
	}
}

// one describes a call that costs one unit.
var one = []limiter.Descriptor{{Cost: 1}}

// try asks once, for the pause and for the limit. The refusal is nil if the call
// may go out.
func (c *Client) try(ctx context.Context, key, method string, v *limiter.Verdict) (*Refusal, error) {
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if left := c.pauses.left(key); left > 0 {
		return &Refusal{RetryAfter: left, Paused: true, text: "the server asked for a pause"}, nil
	}
	err := c.limiter.DecideInline(ctx, key, c.limit, &limiter.Request{Descriptors: one, OnFailure: c.options.OnStoreFailure}, v)
	switch {
	case err != nil:
		return nil, c.failed(ctx, method, v, err)
	case response.StoreUnavailable(v):
		return nil, refusal(codes.Unavailable, "the client's own limit could not be asked", retryUnavailable)
	case v.Allowed:
		return nil, nil
	}
	return &Refusal{RetryAfter: v.RetryAfter, text: "the client's own limit is used up"}, nil
}

// hold waits for as long as the limit delays a call.
func (c *Client) hold(ctx context.Context, method string, v *limiter.Verdict) error {
	if v.Delay <= 0 {
		return nil
	}
	ready := time.Now().Add(v.Delay)
	kept := &Refusal{RetryAfter: v.Delay, text: "the client's own limit holds the call too long"}
	if !c.options.FailFast && sleep(ctx, v.Delay) == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := c.limiter.Undo(undo, v); err != nil {
		c.report(ctx, method, err)
	}
	kept.RetryAfter = max(time.Until(ready), 1)
	return hangUp(ctx, kept)
}

// failed answers for a store that could not: nil lets the call out.
func (c *Client) failed(ctx context.Context, method string, v *limiter.Verdict, err error) error {
	v.Decision = stint.Decision{Allowed: true, Degraded: true}
	c.report(ctx, method, err)
	if c.options.OnStoreFailure == rule.Allow {
		return nil
	}
	return refusal(codes.Unavailable, "the client's own limit could not be asked: "+err.Error(), retryUnavailable)
}

func (c *Client) report(ctx context.Context, method string, err error) {
	if c.options.OnError != nil {
		c.options.OnError(ctx, method, err)
	}
}

// hangUp returns the error of a call that ended while it waited, or whose deadline
// comes before it may go out.
func hangUp(ctx context.Context, refused *Refusal) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return refused
}
