package httplimit

import (
	"net/http"
	"strconv"

	"stint/limiter/response"
)

// refuse answers a request that the policy with this index denied.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, s *scratch, denied int) {
	s.fields.Answer(s.policies, denied, h.options.Reset)
	s.fields.Put(w.Header())
	h.name(w, s)
	if h.answered(w, r, s) {
		return
	}
	if err := h.refuser.Denied(&s.refusal, r.Header["Accept"], &s.Verdict, s.policies, denied); err != nil {
		h.report(r, err)
	}
	h.write(w, r, s)
}

// refuseListed answers a request that a list or a ban denies.
func (h *handler) refuseListed(w http.ResponseWriter, r *http.Request, s *scratch) {
	h.refuser.Listed(&s.refusal, r.Header["Accept"], &s.Verdict, &s.fields)
	s.fields.Put(w.Header())
	if h.answered(w, r, s) {
		return
	}
	h.write(w, r, s)
}

// refusePenalized answers a request that a penalty denies.
func (h *handler) refusePenalized(w http.ResponseWriter, r *http.Request, s *scratch) {
	s.fields.Wait(s.Verdict.RetryAfter)
	s.fields.Put(w.Header())
	h.name(w, s)
	if h.answered(w, r, s) {
		return
	}
	h.refuser.Penalized(&s.refusal, r.Header["Accept"], &s.Verdict)
	h.write(w, r, s)
}

// refuseUnmatched answers a request to which no limit applies.
func (h *handler) refuseUnmatched(w http.ResponseWriter, r *http.Request, s *scratch) {
	if h.answered(w, r, s) {
		return
	}
	h.refuser.Unmatched(&s.refusal, r.Header["Accept"])
	h.write(w, r, s)
}

// refuseUnavailable answers a request that is denied because the store failed.
func (h *handler) refuseUnavailable(w http.ResponseWriter, r *http.Request, s *scratch) {
	s.fields.Wait(response.RetryUnavailable)
	s.fields.Put(w.Header())
	h.name(w, s)
	if h.answered(w, r, s) {
		return
	}
	h.refuser.Unavailable(&s.refusal, r.Header["Accept"])
	h.write(w, r, s)
}

// answered begins a denial, and lets Options.Denied answer the request, if it is set.
func (h *handler) answered(w http.ResponseWriter, r *http.Request, s *scratch) bool {
	h.denies(r, s)
	if h.options.Denied == nil {
		return false
	}
	h.options.Denied(w, r, &s.Verdict)
	return true
}

// write sends a refusal with Cache-Control: no-store, because the next answer may differ.
func (h *handler) write(w http.ResponseWriter, r *http.Request, s *scratch) {
	h.denies(r, s)
	refusal := &s.refusal
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	if isGRPC(r) {
		writeGRPC(w, r, refusal)
		return
	}
	header.Set("Content-Type", refusal.Media)
	header.Set("Content-Length", strconv.Itoa(len(refusal.Body)))
	for _, f := range refusal.Own {
		header.Set(f.Name, f.Value)
	}
	w.WriteHeader(refusal.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(refusal.Body) // an error means that the client has disconnected
	}
}
