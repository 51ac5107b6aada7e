package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"stint"
	"stint/internal/headers"
)

// retryUnavailable is how long a client is told to wait while no limit can be
// asked.
const retryUnavailable = time.Second

// refuse answers a request that the policy of that number denied.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, s *scratch, denied int) {
	s.fields.Answer(s.policies, denied, h.options.Reset)
	s.fields.Put(w.Header())
	if h.options.Denied != nil {
		h.options.Denied(w, r, &s.verdict)
		return
	}
	if headers.PrefersProblem(r.Header["Accept"]) {
		s.body = h.denied.AppendProblem(s.body[:0], h.options.Status, s.policies, denied)
		write(w, r, h.options.Status, headers.Problem, s.body)
		return
	}
	s.body = h.denied.AppendEnvelope(s.body[:0], &s.policies[denied].Decision, h.options.Reset)
	write(w, r, h.options.Status, headers.JSON, s.body)
}

// refuseUnknown answers a request of which nobody knows whose it is.
func (h *handler) refuseUnknown(w http.ResponseWriter, r *http.Request, s *scratch) {
	h.refusePlainly(w, r, s, h.unknown, http.StatusForbidden)
}

// refusePlainly answers that waiting will not help, without any limit's numbers.
func (h *handler) refusePlainly(w http.ResponseWriter, r *http.Request, s *scratch, m *headers.Message, status int) {
	if headers.PrefersProblem(r.Header["Accept"]) {
		s.body = m.AppendPlainProblem(s.body[:0], status, http.StatusText(status))
		write(w, r, status, headers.Problem, s.body)
		return
	}
	s.body = m.AppendPlainEnvelope(s.body[:0], stint.Never)
	write(w, r, status, headers.JSON, s.body)
}

// refuseListed answers a request that a list denies.
func (h *handler) refuseListed(w http.ResponseWriter, r *http.Request, s *scratch) {
	if h.options.Denied != nil {
		h.options.Denied(w, r, &s.verdict)
		return
	}
	h.refusePlainly(w, r, s, h.listed, s.verdict.Listed.Status)
}

// refuseUnavailable answers a request that is denied because its limits cannot be
// asked.
func (h *handler) refuseUnavailable(w http.ResponseWriter, r *http.Request, s *scratch) {
	const status = http.StatusServiceUnavailable
	s.fields.Wait(retryUnavailable)
	s.fields.Put(w.Header())
	if h.options.Denied != nil {
		h.options.Denied(w, r, &s.verdict)
		return
	}
	if headers.PrefersProblem(r.Header["Accept"]) {
		s.body = h.unavailable.AppendCapacityProblem(s.body[:0], status, retryUnavailable)
		write(w, r, status, headers.Problem, s.body)
		return
	}
	s.body = h.unavailable.AppendPlainEnvelope(s.body[:0], retryUnavailable)
	write(w, r, status, headers.JSON, s.body)
}

// write sends an answer that nobody may keep: the next one may differ.
func write(w http.ResponseWriter, r *http.Request, status int, media string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", media)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
}
