package answer

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"stint"
	"stint/internal/web"
	"stint/limiter"
	"stint/rule"
	"stint/rule/denial"
)

// RetryUnavailable is how long a client is told to wait while no limit can be asked.
const RetryUnavailable = time.Second

// The code and the messages of a refusal by a limit, where nothing else is said.
const (
	DefaultCode         = "rate_limited"
	DefaultMessage      = "Request quota exceeded. Wait {wait} and try again."
	DefaultNeverMessage = "Request quota exceeded. The limit never allows this request."
)

// Refusal is the answer to a plain HTTP request that may not pass, but for the fields
// with numbers (web.Fields). The zero Refusal is ready; one that is used again keeps
// its memory.
type Refusal struct {
	Status int
	Media  string // the type of Body
	Body   []byte

	// Own are headers of the rule's own, to be set after all others; nil where it has
	// none.
	Own []denial.Header
}

// Wording is what refusals by a limit say. The zero Wording says the defaults.
type Wording struct {
	// Status is that of a refusal by a limit. 0: 429.
	Status int

	// Code stands in the body. "": DefaultCode.
	Code string

	// Message stands in the body, with how long to wait for {wait}; Never where waiting
	// does not help. "": DefaultMessage and DefaultNeverMessage.
	Message, Never string

	// Reset is how the time of the reset is written.
	Reset web.Reset
}

// Refuser makes refusals. It is immutable and safe for concurrent use.
//
// Each method takes the Accept headers of the client: one that prefers problem details
// gets them, any other the error envelope.
type Refuser struct {
	status int
	reset  web.Reset

	denied, unknown, unavailable, listed, unmatched *web.Message
}

// NewRefuser returns what makes refusals in these words.
func NewRefuser(w Wording) *Refuser {
	return &Refuser{
		status: cmp.Or(w.Status, http.StatusTooManyRequests), reset: w.Reset,
		denied: web.NewMessage(cmp.Or(w.Code, DefaultCode), cmp.Or(w.Message, DefaultMessage),
			cmp.Or(w.Never, DefaultNeverMessage)),
		unknown:     web.NewMessage("unidentified", "", "The sender of this request cannot be told."),
		listed:      web.NewMessage("denied", "", "This client is not served."),
		unmatched:   web.NewMessage("unmatched", "", "No limit applies to this request, and such requests are refused."),
		unavailable: web.NewMessage("limit_unavailable", "The limit could not be asked. Wait {wait} and try again.", ""),
	}
}

// Denied is the refusal of a request that the policy of that number denied, in the way
// that its rule wants. The error says that the rule's own body could not be made; then
// it is the ordinary one.
func (f *Refuser) Denied(r *Refusal, accept []string, v *limiter.Verdict, policies []web.Policy, denied int) error {
	*r = Refusal{Status: f.status, Body: r.Body[:0]}
	var err error
	if v.Rule != nil && v.Rule.Denial != nil {
		own := v.Rule.Denial
		r.Status, r.Own = own.Status, own.Headers
		if own.HasBody() {
			if r.Body, err = own.AppendBody(r.Body, Numbers(&policies[denied])); err == nil {
				r.Media = own.ContentType
				return nil
			}
		}
	}
	if web.PrefersProblem(accept) {
		r.Media, r.Body = web.Problem, f.denied.AppendProblem(r.Body, r.Status, policies, denied)
		return err
	}
	r.Media, r.Body = web.JSON, f.denied.AppendEnvelope(r.Body, &policies[denied].Decision, f.reset)
	return err
}

// Listed is the refusal of a request that is in a list.
func (f *Refuser) Listed(r *Refusal, accept []string, v *limiter.Verdict) {
	plainly(r, accept, f.listed, v.Listed.Status)
}

// Unmatched is the refusal of a request to which no limit applies.
func (f *Refuser) Unmatched(r *Refusal, accept []string) {
	plainly(r, accept, f.unmatched, f.status)
}

// Unidentified is the refusal of a request of which nobody knows whose it is.
func (f *Refuser) Unidentified(r *Refusal, accept []string) {
	plainly(r, accept, f.unknown, http.StatusForbidden)
}

// Misstated is the refusal of a request that names a cost which is none, or a path that
// may be too many others.
func (f *Refuser) Misstated(r *Refusal, accept []string, err error) {
	code := "bad_cost"
	if _, ok := errors.AsType[*rule.PathError](err); ok {
		code = "bad_path"
	}
	plainly(r, accept, web.NewMessage(code, "", err.Error()), http.StatusBadRequest)
}

// plainly says that waiting will not help, without any limit's numbers.
func plainly(r *Refusal, accept []string, m *web.Message, status int) {
	*r = Refusal{Status: status, Body: r.Body[:0]}
	if web.PrefersProblem(accept) {
		r.Media, r.Body = web.Problem, m.AppendPlainProblem(r.Body, status, http.StatusText(status))
		return
	}
	r.Media, r.Body = web.JSON, m.AppendPlainEnvelope(r.Body, stint.Never)
}

// Unavailable is the refusal of a request whose limits cannot be asked.
func (f *Refuser) Unavailable(r *Refusal, accept []string) {
	const status = http.StatusServiceUnavailable
	*r = Refusal{Status: status, Body: r.Body[:0]}
	if web.PrefersProblem(accept) {
		r.Media, r.Body = web.Problem, f.unavailable.AppendCapacityProblem(r.Body, status, RetryUnavailable)
		return
	}
	r.Media, r.Body = web.JSON, f.unavailable.AppendPlainEnvelope(r.Body, RetryUnavailable)
}
