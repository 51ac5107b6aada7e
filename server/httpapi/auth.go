package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/request"
	"stint/limiter/reservation"
	"stint/limiter/response"
	"stint/rule"
)

// AuthPath is the path that proxies call before they forward a request.
const AuthPath = "/v1/auth"

// StatusHeader is the header with the status that the limit requests, for proxies that support only
// some statuses. Every refusal has it and no other answer has it, so it also distinguishes a
// refusal from a network error.
const StatusHeader = "X-Stint-Status"

// ReservationHeader is the header of an answer to reserve=true with what the proxy sends to SettlePath
// when it knows the status of the response.
const ReservationHeader = "X-Stint-Reservation"

const (
	// DefaultWait is the default of the maximum delay of an answer.
	DefaultWait = 5 * time.Second

	// MostWait is the longest maximum delay that can be configured. Connections are closed a few
	// seconds later.
	MostWait = 10 * time.Second
)

// The range of statuses for refusals.
const (
	LeastDeny = 400
	MostDeny  = 499
)

// AuthOptions are the settings of GET /v1/auth.
type AuthOptions struct {
	// Trusted are the networks of the proxies that may call. If empty, every call is refused,
	// because any client could claim to act for others.
	Trusted []netip.Prefix

	// Domain is the default of ?domain=NAME, the domain whose http rules apply. If "", each call
	// must set it.
	Domain string

	// Deny is the default of ?deny=STATUS, the status of every refusal. 0 means the status that the
	// limit requests, by default 429.
	Deny int

	// Wait is the default of ?wait=TIME, the maximum delay of an answer for a request that a leaky
	// bucket delays. A request that needs a longer delay is denied at once. The time must be
	// shorter than the proxy's own timeout; otherwise the proxy lets delayed requests pass, or
	// fail, early. 0 means no delay; the maximum is MostWait.
	Wait time.Duration

	// DegradedHeader is the name of a header that is set to "true" on every answer of a failure
	// policy; "" for none.
	DegradedHeader string

	// APIKeys returns the subject and the plan of an API key, for rules with `api_key: {from:
	// records}`. It may be nil; then no key identifies anybody.
	APIKeys request.IdentifyFunc

	// OnError is called for every request that the store could not decide. It must not block. It
	// may be nil.
	OnError func(error)

	// OnMisuse is called for every call that is wrong because of the proxy's configuration: from an
	// untrusted peer, with wrong or missing parameters, or for a domain without rules, which lets
	// everything pass as in Envoy's protocol. It must not block. It may be nil; then only the proxy
	// learns of the problem, and proxies rarely show it.
	OnMisuse func(peer netip.Addr, problem, hint string)
}

// auth handles the calls of proxies.
type auth struct {
	limiter  *limiter.Limiter
	reserved *reservation.Reservations
	options  AuthOptions
	finder   *web.ClientFinder
	refuser  *response.Refuser
	presets  web.Presets
	names    response.Namer
	works    sync.Pool // of *authWork
}

// authWork is the memory for one call.
type authWork struct {
	request.Scratch
	request  proxied
	policies []web.Policy
	fields   web.Fields
	refusal  response.Refusal
}

func newAuth(l *limiter.Limiter, reserved *reservation.Reservations, o AuthOptions) *auth {
	return &auth{
		limiter: l, reserved: reserved, options: o, finder: web.NewClientFinder(web.TrustConfig{Trusted: o.Trusted}),
		refuser: response.NewRefuser(response.RefusalText{}),
		presets: response.Presets([]rule.Preset{rule.IETF, rule.Legacy}),
		names:   &request.ByRules{},
		works:   sync.Pool{New: func() any { return new(authWork) }},
	}
}

// serve answers a proxy: 200 if its request may pass, otherwise a refusal.
func (a *auth) serve(ctx context.Context, req *Request, resp *Response) *jsonbody.Fault {
	// Most proxies call with GET, but Envoy with the method of the client.
	if req.Method == http.MethodTrace || req.Method == http.MethodConnect {
		resp.set("Allow", http.MethodGet)
		return wrongMethod(req.Method, http.MethodGet)
	}
	q, f := a.parse(req.Query)
	if f != nil {
		return a.misused(req.Peer, f)
	}
	w := a.works.Get().(*authWork)
	if f = a.decide(ctx, req, &q, w, resp); f != nil {
		resp.Status = f.Status
	}
	if resp.Status != http.StatusOK {
		resp.set(StatusHeader, strconv.Itoa(resp.Status))
		switch {
		case q.deny != 0:
			resp.Status = q.deny
		case q.worst != 0 && resp.Status >= http.StatusInternalServerError:
			resp.Status = q.worst
		}
	}
	if f != nil {
		f.Status = resp.Status
	}
	w.request = proxied{}
	w.Clear()
	a.works.Put(w)
	return f
}

// decide decides the request that a proxy describes. A fault is a refusal too: anything that a
// client can cause must not look like an error, because after an error a proxy may let the request
// pass.
func (a *auth) decide(ctx context.Context, req *Request, q *authQuery, w *authWork, resp *Response) *jsonbody.Fault {
	if !a.finder.Trusts(req.Peer) {
		return a.misused(req.Peer, &jsonbody.Fault{
			Status: http.StatusForbidden, Code: jsonbody.Forbidden,
			Problem: req.Peer.String() + " is not a trusted proxy, so its description of a request is ignored",
			Hint:    "name it in --trusted-proxies",
		})
	}
	asked, err := web.ReadForwarded(req.Header)
	if e, ok := errors.AsType[*web.ForwardedError](err); ok {
		f := jsonbody.Bad("", e.Problem, e.Hint)
		if e.Missing {
			f = a.misused(req.Peer, f)
		}
		return f
	}
	client, f := a.client(req)
	if f != nil {
		return f
	}
	w.request = proxied{line: asked, header: req.Header, client: client, Identifier: request.NewIdentifier(a.options.APIKeys)}
	rules := request.ByRules{Limiter: a.limiter, Domain: q.domain}
	what, err := rules.Decide(ctx, &w.request, q.reserve, &w.Scratch)
	accept := req.Header.Values("Accept")
	switch {
	case what == request.Invalid:
		a.refuser.Invalid(&w.refusal, accept, err)
	case what == request.Unidentified:
		a.refuser.Unidentified(&w.refusal, accept)
	case what == request.Undecided:
		a.report(err)
		a.degraded(resp)
		if policy, _ := rules.OnFailure(&w.Scratch); policy == rule.Allow {
			pass(w, resp, false)
			return nil
		}
		a.unavailable(w, accept, resp)
	case what == request.NoLimit:
		a.unknown(req.Peer, &rules)
		pass(w, resp, true)
		return nil
	case a.obey(ctx, q, w, accept, resp):
		if q.reserve {
			resp.set(ReservationHeader, a.reserved.Issue(&w.Verdict))
		}
		return nil
	}
	turnDown(w, resp)
	return nil
}

// client returns the address of the client. If the proxy does not send it, the call fails;
// otherwise all its clients would share the bucket of the proxy.
func (a *auth) client(req *Request) (netip.Addr, *jsonbody.Fault) {
	client, found := a.finder.Find(req.Peer, req.Header.Values(web.ForwardedFor))
	switch found {
	case web.MissingClient:
		return client, a.misused(req.Peer, jsonbody.Bad("", "no header contains the client's address", "let the proxy set X-Forwarded-For to the address of its client"))
	case web.InvalidClient:
		return client, a.misused(req.Peer, jsonbody.Bad("", "X-Forwarded-For does not contain the client's address", "let the proxy set it to the address of its client, such as 192.0.2.7"))
	}
	return client, nil
}

// obey fills the response by the verdict, after the required delay, and reports whether the request
// may pass.
func (a *auth) obey(ctx context.Context, q *authQuery, w *authWork, accept []string, resp *Response) bool {
	v := &w.Verdict
	if v.Degraded {
		a.degraded(resp)
	}
	if v.Listed != nil {
		if v.Allowed {
			pass(w, resp, true)
			return true
		}
		a.refuser.Listed(&w.refusal, accept, v, &w.fields)
		resp.setAll(&w.fields)
		return false
	}
	if v.Unmatched && !v.Allowed {
		a.refuser.Unmatched(&w.refusal, accept)
		return false
	}
	if v.Penalized {
		w.fields.Wait(v.RetryAfter)
		resp.setAll(&w.fields)
		a.refuser.Penalized(&w.refusal, accept, v)
		return false
	}
	var denied int
	w.policies, denied = response.Policies(w.policies, v, a.presets, a.names)
	switch {
	case v.Allowed:
		left := a.hold(ctx, q, v)
		if left <= 0 {
			w.fields.Answer(w.policies, -1, web.UnixSeconds)
			resp.setAll(&w.fields)
			pass(w, resp, true)
			return true
		}
		denied = response.DenyDelayed(w.policies, v, left)
	case response.StoreUnavailable(v):
		a.unavailable(w, accept, resp)
		return false
	}
	w.fields.Answer(w.policies, denied, web.UnixSeconds)
	resp.setAll(&w.fields)
	if err := a.refuser.Denied(&w.refusal, accept, v, w.policies, denied); err != nil {
		a.report(err)
	}
	return false
}

// hold waits for the delay of the verdict. If the delay is longer than the maximum, it does not
// wait and returns the delay.
func (a *auth) hold(ctx context.Context, q *authQuery, v *limiter.Verdict) (left time.Duration) {
	if v.Delay <= 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, q.wait)
	defer cancel()
	left, err := response.Delay(ctx, a.limiter, v)
	if err != nil {
		a.report(err)
	}
	return left
}

// degraded marks the answer of a failure policy.
func (a *auth) degraded(resp *Response) {
	if a.options.DegradedHeader != "" {
		resp.set(a.options.DegradedHeader, "true")
	}
}

// unavailable fills the refusal for a request that could not be decided.
func (a *auth) unavailable(w *authWork, accept []string, resp *Response) {
	w.fields.Wait(response.RetryUnavailable)
	resp.setAll(&w.fields)
	a.refuser.Unavailable(&w.refusal, accept)
}

// unknown reports a call for a domain without rules to OnMisuse.
func (a *auth) unknown(peer netip.Addr, rules *request.ByRules) {
	if !rules.HasRules() {
		a.misused(peer, jsonbody.Bad("domain", "no rules for "+text.Quote(rules.Domain)+", so nothing is limited",
			"ask for a domain of the rules, or add one"))
	}
}

// misused reports a fault to OnMisuse and returns it.
func (a *auth) misused(peer netip.Addr, f *jsonbody.Fault) *jsonbody.Fault {
	if a.options.OnMisuse != nil {
		a.options.OnMisuse(peer, f.Where(), f.Hint)
	}
	return f
}

func (a *auth) report(err error) {
	if a.options.OnError != nil {
		a.options.OnError(err)
	}
}

// pass fills the answer for an allowed request; decided adds the cookies for new devices.
func pass(w *authWork, resp *Response, decided bool) {
	resp.Status = http.StatusOK
	if !decided {
		return
	}
	for _, c := range w.request.cookies {
		resp.Fields = append(resp.Fields, Field{"Set-Cookie", c.String()})
	}
}

// turnDown fills the answer from the refusal.
func turnDown(w *authWork, resp *Response) {
	r := &w.refusal
	resp.Status = r.Status
	resp.Body = append(resp.Body, r.Body...)
	resp.set("Content-Type", r.Media)
	resp.set("Cache-Control", "no-store")
	for _, f := range r.Own {
		resp.set(textproto.CanonicalMIMEHeaderKey(f.Name), f.Value)
	}
}

// set sets a field and replaces an existing one of that name.
func (r *Response) set(name, value string) {
	for i := range r.Fields {
		if strings.EqualFold(r.Fields[i].Name, name) {
			r.Fields[i] = Field{name, value}
			return
		}
	}
	r.Fields = append(r.Fields, Field{name, value})
}

// setAll adds the fields with numbers. It allocates once.
func (r *Response) setAll(f *web.Fields) {
	all, from := f.Text(), 0
	for i := range f.Len() {
		name, value := f.Field(i)
		r.Fields = append(r.Fields, Field{name.String(), all[from : from+len(value)]})
		from += len(value)
	}
}
