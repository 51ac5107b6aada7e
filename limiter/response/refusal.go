package response

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

// RetryUnavailable is the Retry-After of a refusal while the store cannot decide.
const RetryUnavailable = time.Second

// The default code and messages of a refusal by a limit.
const (
	DefaultCode         = string(limiter.ReasonRateLimited)
	DefaultMessage      = "Request quota exceeded. Wait {wait} and try again."
	DefaultNeverMessage = "Request quota exceeded. The limit never allows this request."
)

// Refusal is the HTTP response to a denied request, without the header fields of its numbers,
// which web.Fields writes. The zero Refusal is ready to use. A Refusal that is used again keeps its
// memory.
type Refusal struct {
	Status int
	Media  string // the Content-Type of Body
	Body   []byte

	// Own are the headers that the rule itself names, nil if none. They are set after all
	// others.
	Own []denial.Header

	message *web.Message
	retry   time.Duration
}

// Text returns the message for people alone, for protocols whose refusals have no body.
func (r *Refusal) Text() string { return r.message.Text(r.retry) }

// RefusalText is the status and text of refusals by a limit. The zero RefusalText stands for the
// defaults.
type RefusalText struct {
	// Status is the HTTP status; 0 means 429.
	Status int

	// Code is the error code in the body; "" means DefaultCode.
	Code string

	// Message is the message in the body, where {wait} stands for the time to wait. Never is
	// the message where waiting does not help. "" means DefaultMessage and
	// DefaultNeverMessage.
	Message, Never string

	// Reset is the format of the reset time.
	Reset web.Reset
}

// Refuser makes refusals. It is immutable and safe for concurrent use.
//
// Each method takes the Accept headers of the client. A client that prefers problem details
// (RFC 9457) gets them, any other gets the error envelope.
type Refuser struct {
	status int
	reset  web.Reset

	denied, quota, unknown, unavailable, listed, planless, banned, unmatched, penalized, full, draining *web.Message
}

// NewRefuser returns a Refuser with this text.
func NewRefuser(w RefusalText) *Refuser {
	return &Refuser{
		status: cmp.Or(w.Status, http.StatusTooManyRequests), reset: w.Reset,
		denied: web.NewMessage(cmp.Or(w.Code, DefaultCode), cmp.Or(w.Message, DefaultMessage),
			cmp.Or(w.Never, DefaultNeverMessage)),
		quota: web.NewMessage(cmp.Or(w.Code, string(limiter.ReasonQuota)), cmp.Or(w.Message, DefaultMessage),
			cmp.Or(w.Never, DefaultNeverMessage)),
		planless: web.NewMessage(string(limiter.ReasonNoPlan), "", "This client has no plan that includes the request."),
		unknown:  web.NewMessage("unidentified", "", "The sender of this request is unknown."),
		penalized: web.NewMessage(string(limiter.ReasonPenalized), "Too many requests after the limit was reached. Wait {wait} and try again.",
			"Too many requests after the limit was reached."),
		listed:      web.NewMessage(string(limiter.ReasonDenied), "", "This client is not served."),
		banned:      web.NewMessage(string(limiter.ReasonBanned), "This client is banned. Wait {wait} and try again.", "This client is banned."),
		unmatched:   web.NewMessage(string(limiter.ReasonUnmatched), "", "No limit applies to this request, and such requests are refused."),
		full:        web.NewMessage(string(limiter.ReasonExcessFull), "Too many requests wait already. Wait {wait} and try again.", ""),
		draining:    web.NewMessage(string(limiter.ReasonExcessFull), "The server shuts down. Wait {wait} and try again.", ""),
		unavailable: web.NewMessage(string(limiter.ReasonUnavailable), "The limit could not be asked. Wait {wait} and try again.", ""),
	}
}

// Denied makes the refusal of a request that policies[denied] denied, as the rule configures it.
// If the rule's own body cannot be made, the body is the default one and the error says why.
func (f *Refuser) Denied(r *Refusal, accept []string, v *limiter.Verdict, policies []web.Policy, denied int) error {
	message := f.denied
	if v.Reason() == limiter.ReasonQuota {
		message = f.quota
	}
	*r = Refusal{Status: f.status, Body: r.Body[:0], message: message, retry: v.RetryAfter}
	var err error
	if v.Rule != nil && v.Rule.Denial != nil {
		own := v.Rule.Denial
		r.Status, r.Own = own.Status, own.Headers
		if own.HasBody() {
			if r.Body, err = own.AppendBody(r.Body, DenialNumbers(&policies[denied])); err == nil {
				r.Media = own.ContentType
				return nil
			}
		}
	}
	if web.PrefersProblem(accept) {
		r.Media, r.Body = web.Problem, message.AppendProblem(r.Body, r.Status, policies, denied)
		return err
	}
	r.Media, r.Body = web.JSON, message.AppendEnvelope(r.Body, &policies[denied].Decision, f.reset)
	return err
}

// Listed makes the refusal of a request that a deny list matched, or that is banned, and the header
// fields for it: Retry-After, if the ban has an end.
func (f *Refuser) Listed(r *Refusal, accept []string, v *limiter.Verdict, fields *web.Fields) {
	if v.RetryAfter == stint.Never {
		fields.Answer(nil, -1, f.reset)
	} else {
		fields.Wait(v.RetryAfter)
	}
	if v.Ban == "" {
		message := f.listed
		if v.Reason() == limiter.ReasonNoPlan {
			message = f.planless
		}
		plainRefusal(r, accept, message, v.Listed.Status, stint.Never)
		return
	}
	plainRefusal(r, accept, f.banned, v.Listed.Status, stint.Never)
	r.retry = v.RetryAfter
	switch {
	case r.Media == web.Problem:
		r.Body = f.banned.AppendPlainProblem(r.Body[:0], r.Status, http.StatusText(r.Status), v.RetryAfter)
	case v.RetryAfter != stint.Never:
		until := v.Decision
		until.ResetAfter = v.RetryAfter
		r.Body = f.banned.AppendEnvelope(r.Body[:0], &until, f.reset)
	}
}

// Penalized makes the refusal of a request that a penalty denied: 429, whatever the rule's own denial
// is, with the end of the step as its renewal.
func (f *Refuser) Penalized(r *Refusal, accept []string, v *limiter.Verdict) {
	const status = http.StatusTooManyRequests
	*r = Refusal{Status: status, Body: r.Body[:0], message: f.penalized, retry: v.RetryAfter}
	if web.PrefersProblem(accept) {
		r.Media, r.Body = web.Problem, f.penalized.AppendPlainProblem(r.Body, status, http.StatusText(status), v.RetryAfter)
		return
	}
	until := v.Decision
	until.ResetAfter = v.RetryAfter
	r.Media, r.Body = web.JSON, f.penalized.AppendEnvelope(r.Body, &until, f.reset)
}

// Full makes the refusal of a request for which there is no place in a line or a queue, with the
// status of its rule.
func (f *Refuser) Full(r *Refusal, accept []string, status int, retry time.Duration) {
	plainRefusal(r, accept, f.full, status, retry)
}

// Draining makes the refusal of a request that waits while the server shuts down.
func (f *Refuser) Draining(r *Refusal, accept []string, retry time.Duration) {
	plainRefusal(r, accept, f.draining, http.StatusServiceUnavailable, retry)
}

// Unmatched makes the refusal of a request to which no limit applies.
func (f *Refuser) Unmatched(r *Refusal, accept []string) {
	plainRefusal(r, accept, f.unmatched, f.status, stint.Never)
}

// Unidentified makes the refusal of a request without key and address.
func (f *Refuser) Unidentified(r *Refusal, accept []string) {
	plainRefusal(r, accept, f.unknown, http.StatusForbidden, stint.Never)
}

// challenge names what a client needs whose API key is not valid, as RFC 9110 demands of a 401.
var challenge = []denial.Header{{Name: "WWW-Authenticate", Value: "ApiKey"}}

// ErrBody means that the body of a request cannot be read: the client sent a wrong one, or disconnected.
var ErrBody = errors.New("the body cannot be read")

// Invalid makes the refusal of a request with a bad cost, an ambiguous path or an API key that is not
// valid, by the error that Decide returned, or of one with a wrong body, by ErrBody.
func (f *Refuser) Invalid(r *Refusal, accept []string, err error) {
	if errors.Is(err, rule.ErrKey) {
		plainRefusal(r, accept, web.NewMessage("unauthorized", "", "The API key is not valid."), http.StatusUnauthorized, stint.Never)
		r.Own = challenge
		return
	}
	code := "bad_cost"
	if _, ok := errors.AsType[*rule.PathError](err); ok {
		code = "bad_path"
	} else if errors.Is(err, ErrBody) {
		code = "bad_body"
	}
	plainRefusal(r, accept, web.NewMessage(code, "", err.Error()), http.StatusBadRequest, stint.Never)
}

// plainRefusal makes a refusal without numbers of a limit, which names its code in each form. retry is
// stint.Never where waiting does not help.
func plainRefusal(r *Refusal, accept []string, m *web.Message, status int, retry time.Duration) {
	*r = Refusal{Status: status, Body: r.Body[:0], message: m, retry: retry}
	if web.PrefersProblem(accept) {
		r.Media, r.Body = web.Problem, m.AppendPlainProblem(r.Body, status, http.StatusText(status), retry)
		return
	}
	r.Media, r.Body = web.JSON, m.AppendPlainEnvelope(r.Body, retry)
}

// Unavailable makes the refusal of a request that the store could not decide.
func (f *Refuser) Unavailable(r *Refusal, accept []string) {
	const status = http.StatusServiceUnavailable
	*r = Refusal{Status: status, Body: r.Body[:0], message: f.unavailable, retry: RetryUnavailable}
	if web.PrefersProblem(accept) {
		r.Media, r.Body = web.Problem, f.unavailable.AppendCapacityProblem(r.Body, status, RetryUnavailable)
		return
	}
	r.Media, r.Body = web.JSON, f.unavailable.AppendPlainEnvelope(r.Body, RetryUnavailable)
}
