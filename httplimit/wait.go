package httplimit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/line"
	"stint/limiter/request"
	"stint/limiter/response"
	"stint/rule/denial"
)

// statusGone is the status of a request whose client disconnected before its answer. No client gets it;
// it is for logs.
const statusGone = 499

// blocked is the limit for which others wait before a request, or for which requests are stored.
type blocked struct {
	asked int
	mode  denial.Mode
}

// hold reports what a request has to do because of those before it: to be stored, or else to wait in
// the line that takes last.
func (h *handler) hold(s *scratch, v *limiter.Verdict) denial.Mode {
	lines := h.limiter.Lines()
	s.blocked = blocked{}
	if h.options.Queue == nil && !lines.Any() {
		return denial.Drop
	}
	var last time.Time
	for i := range v.Asked {
		r := v.Asked[i].Rule
		if r == nil || r.Excess == nil || r.Shadow {
			continue
		}
		if r.Excess.Mode == denial.Queue {
			if h.storable(s.attributes.Request, r.Excess) && h.options.Queue.Holds(v.Line(i)) {
				s.blocked = blocked{i, denial.Queue}
				break
			}
			continue
		}
		if tryAt, blocks := lines.Blocks(v.Line(i), s.place); blocks && tryAt.After(last) {
			s.blocked, last = blocked{i, denial.Wait}, tryAt
		}
	}
	return s.blocked.mode
}

// excess lets a pending request wait or be stored. It returns the last decision about it, or that the
// request is answered.
func (h *handler) excess(w http.ResponseWriter, r *http.Request, s *scratch) (what request.Outcome, err error, answered bool) {
	left := line.Undecided // if the store panics
	defer func() {
		if s.place != nil {
			s.place.Leave(time.Now(), left, s.Verdict.Remaining)
			s.place = nil
		}
	}()
	for what == request.Decided && s.Verdict.Pending {
		i := s.blocked.asked
		if !s.Verdict.Held {
			_, i = s.Verdict.Excess()
		}
		if s.Verdict.Asked[i].Rule.Excess.Mode == denial.Queue {
			left = line.Denied
			return what, nil, h.enqueue(w, r, s, i)
		}
		if left, answered = h.wait(w, r, s, i); answered {
			return what, nil, true
		}
		what, err = h.again(r, s)
	}
	switch {
	case what == request.Undecided, what == request.Decided && s.Verdict.Degraded:
		left = line.Undecided
	case what == request.Decided && !s.Verdict.Allowed:
		left = line.Denied
	default:
		left = line.Passed
	}
	return what, err, false
}

// wait lets the request wait for its turn in the line of Asked number i. If it cannot wait, wait
// answers it.
func (h *handler) wait(w http.ResponseWriter, r *http.Request, s *scratch, i int) (left line.Outcome, answered bool) {
	now := time.Now()
	request := s.Verdict.Place(i, now)
	var err error
	if s.place == nil {
		if s.place, err = h.limiter.Lines().Join(now, &request); err == nil {
			if s.same != nil { // both phases are decided as one from now on
				s.same.undo(r)
				s.again, s.same, s.Earlier = true, nil, nil
			}
		}
	} else {
		err = s.place.Move(now, &request)
	}
	if err == nil {
		h.undo(r, &s.Verdict)
		err = s.place.Wait(r.Context(), h.gone(r))
	}
	if err == nil {
		return line.Undecided, false
	}
	refused, ok := errors.AsType[*line.RefusedError](err)
	switch {
	case ok:
	case errors.Is(err, context.DeadlineExceeded):
		refused = &line.RefusedError{Outcome: line.Late, RetryAfter: time.Second}
	default:
		w.WriteHeader(statusGone)
		return line.Gone, true
	}
	h.refuseExcess(w, r, s, i, refused)
	return refused.Outcome, true
}

// connKey is the context key of a connection, see ConnContext.
type connKey struct{}

// ConnContext is for http.Server.ConnContext. With it, clients that disconnect while they wait free
// their place at once, also if their body was not read: over HTTP/1 the server does not notice that.
// Servers with a ConnContext of their own call it from there, or set Options.Conn.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// gone returns a function that reports whether the client of a request disconnected; nil if the server
// notices that itself, or nobody can.
func (h *handler) gone(r *http.Request) func() bool {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return nil
	}
	var c net.Conn
	if h.options.Conn != nil {
		c = h.options.Conn(r)
	} else {
		c, _ = r.Context().Value(connKey{}).(net.Conn)
	}
	if c == nil {
		return nil
	}
	return func() bool { return web.HungUp(c) }
}

// again decides a request once more, when it is its turn.
func (h *handler) again(r *http.Request, s *scratch) (request.Outcome, error) {
	if !s.again {
		if what, same, err := s.attributes.rules.Again(h.contextOf(r), &s.Scratch); same {
			return what, err
		}
	}
	s.again = false
	return h.ask(r, s)
}

// undo gives back what a denied request took of limits that decide apart, since it is decided again.
func (h *handler) undo(r *http.Request, v *limiter.Verdict) {
	undo, cancel := response.Afterwards(r.Context())
	defer cancel()
	if err := h.limiter.Undo(undo, v); err != nil {
		h.report(r, err)
	}
}

// refuseExcess answers a request that Asked number i has no place for.
func (h *handler) refuseExcess(w http.ResponseWriter, r *http.Request, s *scratch, i int, refused *line.RefusedError) {
	status := s.Verdict.Asked[i].Rule.Excess.Full
	h.limiter.Deny(r.Context(), &s.Verdict, i, limiter.ReasonExcessFull, refused.RetryAfter)
	if s.Verdict.Penalized {
		h.refusePenalized(w, r, s)
		return
	}
	s.fields.Wait(refused.RetryAfter)
	s.fields.Put(w.Header())
	h.name(w, s)
	if h.answered(w, r, s) {
		return
	}
	if refused.Outcome == line.Drained {
		h.refuser.Draining(&s.refusal, r.Header["Accept"], refused.RetryAfter)
	} else {
		h.refuser.Full(&s.refusal, r.Header["Accept"], status, refused.RetryAfter)
	}
	h.write(w, r, s)
}
