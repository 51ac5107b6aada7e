package httplimit

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"stint/limiter"
	"stint/limiter/line"
	"stint/rule/denial"
)

// Queue stores requests that a limit with `excess: queue` denies, and sends them later. It is safe
// for concurrent use, and its methods may block no longer than a store may.
type Queue interface {
	// Holds reports whether the queue has requests of a line that are not done. While it has,
	// further requests of the line are stored behind them, even if the limit would allow them.
	Holds(id line.ID) bool

	// Accept stores a request and answers it with 202. It may read the body. After an error it has
	// answered nothing, and the request is denied: with [ErrQueueFull] by the status `full`, with
	// any other error, such as [ErrTooLarge], as if its excess were dropped.
	Accept(w http.ResponseWriter, r *http.Request, e *Excess) error
}

// The errors of a Queue that are no failures: there is no place, or the body is larger than its rule
// allows.
var (
	ErrQueueFull = errors.New("the queue is full")
	ErrTooLarge  = errors.New("the body is too large for the queue")
)

// Excess is a request that a limit with `excess: queue` denies. It is valid until Accept returns; a
// queue that keeps any of it copies it.
type Excess struct {
	// Line is the rule and the hashed key of the limit. It is the same in all processes with the same
	// rules and namespace secret.
	Line line.ID

	// Settings are those of the rule.
	Settings *denial.Excess

	// Domain and Descriptors are what to take before the request is sent, see [limiter.Request].
	Domain      string
	Descriptors []limiter.Descriptor

	// Client is the address of the client; the zero Addr if it is unknown. Identity is the name that
	// authentication proved; "" if there is none.
	Client   netip.Addr
	Identity string

	// RetryAfter is when the limit has room for this request, if nobody else takes; 0 if it has room
	// and the request is stored because the queue holds others of its line.
	RetryAfter time.Duration
}
