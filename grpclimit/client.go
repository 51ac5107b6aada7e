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
)

// ClientOptions configure which calls share a limit, and what happens to a call that the limit does
// not allow yet. With the zero ClientOptions it waits.
type ClientOptions struct {
	// Name is part of every key. Limits with the same name and store are the same limit, also in
	// other processes that use the store. "" means the numbers, such as "100/1m".
	Name string

	// Key returns a key; calls with the same key share a budget. target is the target of the
	// connection, method the full method name. If nil, all calls to a target share a budget.
	Key func(ctx context.Context, target, method string) string

	// FailFast refuses a call that would have to wait. If false, calls with the same key wait in
	// order of arrival. A call is refused as soon as it is known that its deadline is too early:
	// immediately if even the first waiting call cannot be sent before it.
	FailFast bool

	// EachMessage charges one unit for each message that a stream sends; opening the stream pays
	// for the first. SendMsg waits or refuses like a call. If false, a stream counts as one call.
	EachMessage bool

	// MaxPause is the longest pause that a server can request for the calls of a key; longer pauses
	// are shortened. 0 means DefaultMaxPause. A negative value ignores requested pauses.
	MaxPause time.Duration

	// OnStoreFailure is the policy if the store fails. The zero value sends the call.
	OnStoreFailure stint.Failure

	// OnError is called for every call that the store could not decide. It must not block. It may
	// be nil.
	OnError func(ctx context.Context, method string, err error)
}

// DefaultMaxPause is the default of ClientOptions.MaxPause.
const DefaultMaxPause = time.Minute

// Refusal is the error of a call that was not sent, because of the client's own limit or because
// the server requested a pause. For package status it is RESOURCE_EXHAUSTED with a RetryInfo, like
// the error of a server.
type Refusal struct {
	// RetryAfter is the time to wait; stint.Never if waiting never helps.
	RetryAfter time.Duration

	// Paused is true if the server requested a pause.
	Paused bool

	text string
}

// Error returns the reason and the time to wait.
func (r *Refusal) Error() string {
	if r.RetryAfter == stint.Never {
		return r.text + "; no waiting helps"
	}
	return r.text + "; wait " + string(web.AppendWait(nil, r.RetryAfter))
}

// GRPCStatus returns the refusal as a status, for package status.
func (r *Refusal) GRPCStatus() *status.Status {
	return status.Convert(refusal(codes.ResourceExhausted, r.Error(), r.RetryAfter))
}

// Client limits the calls of a gRPC client: its methods Unary and Stream are the interceptors. It
// is safe for concurrent use; the connections that use it share its budget.
//
// If a server answers RESOURCE_EXHAUSTED with a RetryInfo, the call returns that error, and later
// calls with the same key wait for the given time, at most MaxPause. No call is retried.
type Client struct {
	limiter *limiter.Limiter
	limit   *stint.Limit
	options ClientOptions
	prefix  string // prefix of all keys
	queue   queue
	pauses  pauses
	pool    sync.Pool // of *limiter.Verdict
}

var (
	_ grpc.UnaryClientInterceptor  = (*Client)(nil).Unary
	_ grpc.StreamClientInterceptor = (*Client)(nil).Stream
)

// NewClient returns a client with a limit whose state is in store.
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

// Unary sends a call when the limit allows it.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	key := c.key(ctx, cc.Target(), method)
	if err := c.admit(ctx, key, method); err != nil {
		return err
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	c.pauseOn(key, err)
	return err
}

// Stream opens a stream when the limit allows it.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	key := c.key(ctx, cc.Target(), method)
	if err := c.admit(ctx, key, method); err != nil {
		return nil, err
	}
	stream, err := open(ctx, desc, cc, method, opts...)
	c.pauseOn(key, err)
	if err != nil {
		return nil, err
	}
	return &pacedStream{ClientStream: stream, client: c, key: key, method: method}, nil
}

// pacedStream limits the messages of a stream, and pauses its key if the server's final error
// requests it.
type pacedStream struct {
	grpc.ClientStream
	client      *Client
	key, method string

	begun bool // used only by the sending goroutine
}

// SendMsg sends a message when the limit allows it.
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
	p.client.pauseOn(p.key, err)
	return err
}

func (c *Client) key(ctx context.Context, target, method string) string {
	if c.options.Key != nil {
		target = c.options.Key(ctx, target, method)
	}
	return c.prefix + target
}

// pauseOn pauses a key if the server's error requests it.
func (c *Client) pauseOn(key string, err error) {
	if own := (*Refusal)(nil); err == nil || errors.As(err, &own) {
		return
	}
	if pause := min(retryDelay(err), c.options.MaxPause); pause > 0 {
		c.pauses.set(key, time.Now().Add(pause))
	}
}

// admit returns when a call may be sent, or the error of a call that may not be sent.
func (c *Client) admit(ctx context.Context, key, method string) error {
	v := c.pool.Get().(*limiter.Verdict)
	defer c.pool.Put(v)
	if c.options.FailFast || !c.queue.waits(key) {
		// Waiting calls wait for each other, but a call that finds no queue does not wait for other
		// calls that are just asking a slow store.
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

// line waits until earlier calls with the same key have been sent, and then until the limit allows
// the call.
func (c *Client) line(ctx context.Context, key, method string, v *limiter.Verdict) error {
	if late, err := c.queue.join(ctx, key); err != nil {
		return waitError(ctx, &Refusal{RetryAfter: late, text: "calls that wait already will wait longer than this call can"})
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
			return waitError(ctx, refused)
		}
	}
}

// one is the descriptor of a call that costs one unit.
var one = []limiter.Descriptor{{Cost: 1}}

// try checks the pause and asks the limit once. The refusal is nil if the call may be sent.
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

// hold waits for the delay of the verdict.
func (c *Client) hold(ctx context.Context, method string, v *limiter.Verdict) error {
	if v.Delay <= 0 {
		return nil
	}
	ready := time.Now().Add(v.Delay)
	kept := &Refusal{RetryAfter: v.Delay, text: "the client's own limit holds the call too long"}
	if !c.options.FailFast && sleep(ctx, v.Delay) == nil {
		return nil
	}
	undo, cancel := response.Afterwards(ctx)
	defer cancel()
	if err := c.limiter.Undo(undo, v); err != nil {
		c.report(ctx, method, err)
	}
	kept.RetryAfter = max(time.Until(ready), 1)
	return waitError(ctx, kept)
}

// failed applies the failure policy; nil means that the call is sent.
func (c *Client) failed(ctx context.Context, method string, v *limiter.Verdict, err error) error {
	v.Decision = stint.Decision{Allowed: true, Degraded: true}
	c.report(ctx, method, err)
	if c.options.OnStoreFailure == stint.Allow {
		return nil
	}
	return refusal(codes.Unavailable, "the client's own limit could not be asked: "+err.Error(), retryUnavailable)
}

func (c *Client) report(ctx context.Context, method string, err error) {
	if c.options.OnError != nil {
		c.options.OnError(ctx, method, err)
	}
}

// waitError returns the error of a call that ended while it waited, or whose deadline is too early.
func waitError(ctx context.Context, refused *Refusal) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return refused
}
