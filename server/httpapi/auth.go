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
	"stint/limiter/response"
	"stint/rule"
)

// AuthPath is the path of the question that proxies ask before they pass a request on.
const AuthPath = "/v1/auth"

// StatusHeader is the header of a refusal that says the status which the limit wants,
// for proxies that only know some. It stands on every refusal and on no other answer,
// so it also tells a refusal from an error on the way.
const StatusHeader = "X-Stint-Status"

const (
	// DefaultWait is how long the service holds an answer at most where nothing else is
	// configured.
	DefaultWait = 5 * time.Second

	// MostWait is the longest that can be configured: a connection is cut some seconds
	// after it.
	MostWait = 10 * time.Second
)

// The statuses that a refusal may have.
const (
	LeastDeny = 400
	MostDeny  = 499
)

// AuthOptions are the settings of GET /v1/auth.
type AuthOptions struct {
	// Trusted are the networks of the proxies that may ask. None: nobody may, because
	// anybody could ask in the name of others.
	Trusted []netip.Prefix

	// Domain is the domain whose http rules are asked where a call does not name one by
	// ?domain=NAME. "": each call has to.
	Domain string

	// Deny is the status of every refusal where a call does not name one by
	// ?deny=STATUS. 0: the one that the limit wants, which is 429 where its rule is
	// silent.
	Deny int

	// Wait is how long an answer is held for a request that a leaky bucket delays where a
	// call does not name a time by ?wait=TIME; who would be held longer is denied at
	// once. It must be shorter than the proxy waits for an answer: else a request that
	// should have waited passes, or fails, at once. 0: not at all; at most MostWait.
	Wait time.Duration

	// DegradedHeader is the name of a header that is set to "true" on every answer that a
	// failure policy gave because the store could not. "": none.
	DegradedHeader string

	// OnError is told of every request that the store could not decide. It must not
	// block. Nil: nobody is told.
	OnError func(error)

	// OnMisuse is told of every question that is wrong whatever the client does: by a peer
	// that is not trusted, with wrong parameters, without what has to be said, or for a
	// domain without rules, which lets everything pass as in Envoy's protocol. It must
	// not block. Nil: nobody is told but the proxy, which rarely shows it.
	OnMisuse func(peer netip.Addr, problem, hint string)
}

// auth answers the questions of proxies.
type auth struct {
	limiter *limiter.Limiter
	options AuthOptions
	finder  *web.ClientFinder
	refuser *response.Refuser
	presets web.Presets
	names   response.Namer
	works   sync.Pool // of *authWork
}

// authWork is the memory of one question.
type authWork struct {
	request.Scratch
	request  proxied
	policies []web.Policy
	fields   web.Fields
	refusal  response.Refusal
}

func newAuth(l *limiter.Limiter, o AuthOptions) *auth {
	return &auth{
		limiter: l, options: o, finder: web.NewClientFinder(web.TrustConfig{Trusted: o.Trusted}),
		refuser: response.NewRefuser(response.RefusalText{}),
		presets: response.Presets([]rule.Preset{rule.IETF, rule.Legacy}),
		names:   &request.ByRules{},
		works:   sync.Pool{New: func() any { return new(authWork) }},
	}
}

// serve answers a proxy: 200 where its request may pass, else a refusal.
func (a *auth) serve(ctx context.Context, req *Request, resp *Response) *jsonbody.Fault {
	// Most ask by GET, but Envoy by the method of the client.
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

// decide asks the limits of the request that a proxy describes. A fault is a refusal
// too: what a client can bring about must not look like an error, after which a proxy
// may let it pass.
func (a *auth) decide(ctx context.Context, req *Request, q *authQuery, w *authWork, resp *Response) *jsonbody.Fault {
	if !a.finder.Trusts(req.Peer) {
		return a.misused(req.Peer, &jsonbody.Fault{
			Status: http.StatusForbidden, Code: jsonbody.Forbidden,
			Problem: req.Peer.String() + " is no trusted proxy, so what it says of a request is not believed",
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
	w.request = proxied{line: asked, header: req.Header, client: client}
	rules := request.ByRules{Limiter: a.limiter, Domain: q.domain}
	what, err := rules.Decide(ctx, &w.request, false, &w.Scratch)
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
		return nil
	}
	turnDown(w, resp)
	return nil
}

// client returns the address of the client that a proxy asks for. A proxy that does not
// say it would else have all its clients counted in one bucket, its own.
func (a *auth) client(req *Request) (netip.Addr, *jsonbody.Fault) {
	client, found := a.finder.Find(req.Peer, req.Header.Values(web.ForwardedFor))
	switch found {
	case web.MissingClient:
		return client, a.misused(req.Peer, jsonbody.Bad("", "no header says whose request it is", "let the proxy set X-Forwarded-For to the address of its client"))
	case web.UnreadableClient:
		return client, a.misused(req.Peer, jsonbody.Bad("", "X-Forwarded-For does not say whose request it is", "let the proxy set it to the address of its client, such as 192.0.2.7"))
	}
	return client, nil
}

// obey does what the verdict says, after a request has waited as long as it has to. It
// says whether the request passes.
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
		a.refuser.Listed(&w.refusal, accept, v)
		return false
	}
	if v.Unmatched && !v.Allowed {
		a.refuser.Unmatched(&w.refusal, accept)
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

// hold waits for as long as the verdict delays the request, and returns what is left of
// that where it is longer than the proxy waits.
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

// degraded marks an answer that is a failure policy's.
func (a *auth) degraded(resp *Response) {
	if a.options.DegradedHeader != "" {
		resp.set(a.options.DegradedHeader, "true")
	}
}

// unavailable makes the refusal of a request whose limits cannot be asked.
func (a *auth) unavailable(w *authWork, accept []string, resp *Response) {
	w.fields.Wait(response.RetryUnavailable)
	resp.setAll(&w.fields)
	a.refuser.Unavailable(&w.refusal, accept)
}

// unknown reports a question for a domain without rules.
func (a *auth) unknown(peer netip.Addr, rules *request.ByRules) {
	if !rules.HasRules() {
		a.misused(peer, jsonbody.Bad("domain", "no rules for "+text.Quote(rules.Domain)+", so nothing is limited",
			"ask for a domain of the rules, or add one"))
	}
}

// misused tells of a question that is wrong.
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

// pass answers that a request may pass, with the cookies for new devices where limits
// were asked.
func pass(w *authWork, resp *Response, decided bool) {
	resp.Status = http.StatusOK
	if !decided {
		return
	}
	for _, c := range w.request.cookies {
		resp.Fields = append(resp.Fields, Field{"Set-Cookie", c.String()})
	}
}

// turnDown answers by the refusal that was made.
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

// set sets a field, in place of the one that it has under that name.
func (r *Response) set(name, value string) {
	for i := range r.Fields {
		if strings.EqualFold(r.Fields[i].Name, name) {
			r.Fields[i] = Field{name, value}
			return
		}
	}
	r.Fields = append(r.Fields, Field{name, value})
}

// setAll adds fields with numbers. It allocates once.
func (r *Response) setAll(f *web.Fields) {
	all, from := f.Text(), 0
	for i := range f.Len() {
		name, value := f.Field(i)
		r.Fields = append(r.Fields, Field{name.String(), all[from : from+len(value)]})
		from += len(value)
	}
}
