package httplimit

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"stint/limiter"
	"stint/limiter/line"
	"stint/limiter/response"
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
	// [ErrBody] by 400, with any other error, such as [ErrTooLarge], as if its excess were dropped.
	Accept(w http.ResponseWriter, r *http.Request, e *Excess) error
}

// The errors of a Queue that are no failures: there is no place, the body is larger than its rule
// allows, or the client sent a wrong body or disconnected before its end.
var (
	ErrQueueFull = errors.New("the queue is full")
	ErrTooLarge  = errors.New("the body is too large for the queue")
	ErrBody      = response.ErrBody
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

// storable reports whether a request may be stored: not what opens a tunnel or a stream, no larger body
// than its rule allows, and where the client has to ask for it, only if it does.
func (h *handler) storable(r *http.Request, e *denial.Excess) bool {
	return h.options.Queue != nil && e.Stores(r.Method) && r.ContentLength <= e.Body && len(r.Header["Upgrade"]) == 0 &&
		!isGRPC(r) && (!e.Asked || prefersAsync(r.Header["Prefer"]))
}

// prefersAsync reports whether Prefer headers (RFC 7240) ask for an answer before the work is done.
func prefersAsync(values []string) bool {
	for _, value := range values {
		for preference := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
				return true
			}
		}
	}
	return false
}

// enqueue stores a request that Asked number i denies. It returns false if the request is to be denied
// as if its excess were dropped; the verdict then says so.
func (h *handler) enqueue(w http.ResponseWriter, r *http.Request, s *scratch, i int) (answered bool) {
	v := &s.Verdict
	a := &v.Asked[i]
	if !h.storable(r, a.Rule.Excess) {
		h.limiter.Deny(r.Context(), v, i, "", 0)
		return false
	}
	e := &Excess{
		Line: v.Line(i), Settings: a.Rule.Excess, Domain: v.Domain, Descriptors: s.Descriptors(),
		Client: s.attributes.RemoteAddress(), Identity: s.attributes.Identity(),
	}
	if !v.Held {
		e.RetryAfter = a.RetryAfter
	}
	if s.same != nil {
		e.Descriptors = append(s.same.descriptors(), e.Descriptors...)
	}
	answer := &accepting{ResponseWriter: w, accepted: func() {
		h.limiter.Deny(r.Context(), v, i, limiter.ReasonQueued, 0)
		h.denies(r, s)
	}}
	err := h.options.Queue.Accept(answer, r, e)
	full := errors.Is(err, ErrQueueFull)
	switch {
	case err == nil:
		answer.accept()
		return true
	case errors.Is(err, ErrBody):
		h.refuseBody(w, r, s, err)
		return true
	case !full && !errors.Is(err, ErrTooLarge):
		h.report(r, err)
	}
	if full || v.Held { // what was held was not asked, so there are no numbers
		h.refuseExcess(w, r, s, i, &line.RefusedError{Outcome: line.Full, RetryAfter: max(e.RetryAfter, time.Second)})
		return true
	}
	h.limiter.Deny(r.Context(), v, i, "", 0)
	return false
}

// refuseBody answers a request whose body cannot be read. Nothing stays charged. A client that
// disconnected gets no answer.
func (h *handler) refuseBody(w http.ResponseWriter, r *http.Request, s *scratch, err error) {
	h.undo(r, &s.Verdict)
	if closed := h.gone(r); r.Context().Err() != nil || closed != nil && closed() {
		h.undoEarlier(r, s)
		w.WriteHeader(statusGone)
		return
	}
	s.Verdict.Clear()
	h.refuser.Invalid(&s.refusal, r.Header["Accept"], err)
	h.write(w, r, s)
}

// accepting is a ResponseWriter for a queue. It calls accepted once, before the answer is sent, so that
// what an observer shows of the request can be in its headers.
type accepting struct {
	http.ResponseWriter
	accepted func()
}

func (a *accepting) accept() {
	if a.accepted != nil {
		a.accepted()
		a.accepted = nil
	}
}

// Unwrap supports http.ResponseController.
func (a *accepting) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader accepts the request, unless the status is informational.
func (a *accepting) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.accept()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write accepts the request if there is no status yet.
func (a *accepting) Write(b []byte) (int, error) {
	a.accept()
	return a.ResponseWriter.Write(b)
}
