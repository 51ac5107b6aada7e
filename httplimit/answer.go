package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"stint"
	"stint/internal/headers"
	"stint/limiter/answer"
)

// retryUnavailable is how long a client is told to wait while no limit can be
// asked.
const retryUnavailable = time.Second

// refuse answers a request that the policy of that number denied.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, s *scratch, denied int) {
	s.fields.Answer(s.policies, denied, h.options.Reset)
	s.fields.Put(w.Header())
	h.name(w, s)
	if h.options.Denied != nil {
		h.options.Denied(w, r, &s.Verdict)
		return
	}
	if s.Verdict.Rule != nil && s.Verdict.Rule.Denial != nil {
		h.refuseAsRuled(w, r, s, denied)
		return
	}
	media := h.body(r, s, h.options.Status, denied)
	write(w, r, h.options.Status, media, s.body)
}

// body writes the ordinary body of a refusal, and returns its type.
func (h *handler) body(r *http.Request, s *scratch, status, denied int) (media string) {
	if headers.PrefersProblem(r.Header["Accept"]) {
		s.body = h.denied.AppendProblem(s.body[:0], status, s.policies, denied)
		return headers.Problem
	}
	s.body = h.denied.AppendEnvelope(s.body[:0], &s.policies[denied].Decision, h.options.Reset)
	return headers.JSON
}

// refuseAsRuled answers as the rule that denied wants it: by its status, with its
// headers, and its body if it has one.
func (h *handler) refuseAsRuled(w http.ResponseWriter, r *http.Request, s *scratch, denied int) {
	own := s.Verdict.Rule.Denial
	media, err := own.ContentType, error(nil)
	if own.HasBody() {
		s.body, err = own.AppendBody(s.body[:0], answer.Numbers(&s.policies[denied]))
	}
	if err != nil {
		h.report(r, err)
	}
	if err != nil || !own.HasBody() {
		media = h.body(r, s, own.Status, denied)
	}
	describe(w.Header(), media, len(s.body))
	for _, f := range own.Headers {
		w.Header().Set(f.Name, f.Value)
	}
	send(w, r, own.Status, s.body)
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
		h.options.Denied(w, r, &s.Verdict)
		return
	}
	h.refusePlainly(w, r, s, h.listed, s.Verdict.Listed.Status)
}

// refuseUnavailable answers a request that is denied because its limits cannot be
// asked.
func (h *handler) refuseUnavailable(w http.ResponseWriter, r *http.Request, s *scratch) {
	const status = http.StatusServiceUnavailable
	s.fields.Wait(retryUnavailable)
	s.fields.Put(w.Header())
	h.name(w, s)
	if h.options.Denied != nil {
		h.options.Denied(w, r, &s.Verdict)
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

// write sends an answer.
func write(w http.ResponseWriter, r *http.Request, status int, media string, body []byte) {
	describe(w.Header(), media, len(body))
	send(w, r, status, body)
}

// describe sets the headers of a body that nobody may keep: the next answer may
// differ.
func describe(header http.Header, media string, length int) {
	header.Set("Content-Type", media)
	header.Set("Content-Length", strconv.Itoa(length))
	header.Set("Cache-Control", "no-store")
}

func send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // a client that is gone needs no answer
	}
}
