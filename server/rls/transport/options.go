package transport

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"
)

// Options are the settings of a Server. The zero value of each field selects its default.
type Options struct {
	// TLS configures encryption and client certificates; nil for plain text.
	TLS *tls.Config

	// MaxMessage is the maximum size of a request in bytes; default MaxMessage, 1 MiB. Each call in
	// flight may use this much memory.
	MaxMessage int

	// MaxStreams is the maximum number of calls in flight on one connection; default MaxStreams,
	// 1024. Further calls wait in the client.
	MaxStreams uint32

	// Keepalive is how long a connection may be idle before the server sends a ping; default 2 min.
	// With a shorter time a lost client is detected earlier, at the cost of more pings.
	Keepalive time.Duration

	// KeepaliveTimeout is how long the server waits for the answer to a ping; default 20 s.
	KeepaliveTimeout time.Duration

	// MaxAge is the age, plus or minus ten percent, at which the server asks a client to reconnect,
	// so that clients spread over new servers; 0 means never.
	MaxAge time.Duration

	// MaxAgeGrace is how long the calls of such a connection may still take; 0 means unlimited.
	MaxAgeGrace time.Duration

	// Reflection enables gRPC reflection, which clients such as grpcurl use.
	Reflection bool

	// Trace adds the trace of a caller to the context of a call, from the metadata traceparent and
	// tracestate; nil: there are no traces.
	Trace func(ctx context.Context, traceparent, tracestate string) context.Context

	// Log receives calls that panic; may be nil.
	Log *slog.Logger
}

// The defaults and fixed limits.
const (
	MaxMessage = 1 << 20
	MaxStreams = 1024
)

const (
	// handshake is the timeout for the greeting of a new connection.
	handshake = 10 * time.Second

	// arrive is the timeout for the request of a call after its headers. HTTP uses the same.
	arrive = 10 * time.Second

	// mostArriving is the maximum number of calls, on all connections, whose requests have not
	// arrived. Each costs some 14 KiB here and 17 bytes for its client. If there are more, the
	// oldest is ended.
	mostArriving = 16384

	// maxOpen is the maximum number of open health and reflection streams of one connection.
	maxOpen = 16

	// maxHeader is the maximum size of the headers of a call in bytes. Envoy's own take a few
	// hundred, but it passes on trace headers of its clients, up to 60 KiB. If such a call were
	// refused, Envoy would let the request pass.
	maxHeader = 64 << 10

	// maxFields is the maximum number of header fields of a call, counting repeated ones. Envoy
	// sends about ten.
	maxFields = 128

	// quickestPing is the minimum interval of pings from a client. Envoy's connection_keepalive, if
	// enabled, sends one every few seconds.
	quickestPing = time.Second

	// workers is the number of goroutines that wait for calls, so that most calls do not need a new
	// stack that has to grow: this saves a fifth of the CPU time, as measured. If all are busy, a
	// call gets its own goroutine.
	workers = 64

	// disconnectGrace is how long clients without calls in flight have to disconnect after they were asked to.
	disconnectGrace = time.Second
)

// withDefaults returns the options with defaults for zero fields.
func (o Options) withDefaults() Options {
	if o.MaxMessage <= 0 {
		o.MaxMessage = MaxMessage
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = MaxStreams
	}
	if o.Keepalive <= 0 {
		o.Keepalive = 2 * time.Minute
	}
	if o.KeepaliveTimeout <= 0 {
		o.KeepaliveTimeout = 20 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
