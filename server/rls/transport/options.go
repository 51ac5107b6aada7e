package transport

import (
	"crypto/tls"
	"log/slog"
	"time"
)

// Options are the settings of a Server. The zero value of each field is its default.
type Options struct {
	// TLS says how connections are encrypted and whose are let in; nil: they are not.
	TLS *tls.Config

	// MaxMessage is the most bytes of a request; default MaxMessage, 1 MiB. Each call
	// in flight may hold this much memory.
	MaxMessage int

	// MaxStreams is how many calls one connection may have in flight; default
	// MaxStreams, 1024. What is above waits in the client.
	MaxStreams uint32

	// Keepalive is how long a connection may be silent before it is asked whether it
	// is still there; default 2 min. Shorter, a client that vanished is noticed sooner,
	// at a ping per connection.
	Keepalive time.Duration

	// KeepaliveTimeout is how long the answer to that may take; default 20 s.
	KeepaliveTimeout time.Duration

	// MaxAge is the age at which a connection is asked to go away, a tenth more or
	// less, so that clients spread over new servers; 0: never.
	MaxAge time.Duration

	// MaxAgeGrace is how long its calls then may take; 0: as long as they want.
	MaxAgeGrace time.Duration

	// Reflection tells clients that ask, such as grpcurl, what the service looks like.
	Reflection bool

	// Log is told of calls that panic; nil: nobody is.
	Log *slog.Logger
}

// What holds where Options are silent.
const (
	MaxMessage = 1 << 20
	MaxStreams = 1024
)

const (
	// handshake is how long a new connection may take to say hello.
	handshake = 10 * time.Second

	// arrive is how long the request of a call may take to arrive after its headers. It
	// is that of HTTP.
	arrive = 10 * time.Second

	// mostArriving is how many calls may wait for their requests, of all connections. Each
	// costs some 14 KiB, and its client 17 bytes. Where more wait, the oldest ends.
	mostArriving = 16384

	// maxOpen is how many streams of health and reflection one connection may have open.
	maxOpen = 16

	// maxHeader is the most bytes of the headers of a call. Those of Envoy are some hundred,
	// but it passes on what its clients send about traces, up to 60 KiB: a call that was
	// refused for that would let their requests pass.
	maxHeader = 64 << 10

	// maxFields is the most header fields of a call, with those that stand there twice. Envoy
	// sends some ten.
	maxFields = 128

	// quickestPing is how often a client may ask whether the server is there. Envoy's
	// connection_keepalive asks every few seconds where it is switched on.
	quickestPing = time.Second

	// workers are goroutines that wait for calls, so that not each call pays for a stack
	// that has to grow: a fifth of the processor's time, measured. Where all are busy, a
	// call gets a goroutine of its own.
	workers = 64

	// deaf is how long connections without calls may take to go away once they were
	// asked to and nothing is in flight.
	deaf = time.Second
)

// withDefaults returns the options with nothing left open.
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
