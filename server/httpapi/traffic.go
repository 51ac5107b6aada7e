package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"

	"stint"
	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/limiter"
	"stint/limiter/reservation"
	"stint/limiter/response"
	"stint/server/httpapi/limitjson"
)

// MaxBody is the default of the maximum size of a request body, in bytes.
const MaxBody = 1 << 20

// Headers gives access to the header of a request.
type Headers interface {
	// Values returns all values of a header, in order. The name is case-insensitive; the spelling
	// of net/http is fastest.
	Values(name string) []string
}

// Request is an HTTP request, independent of the HTTP server.
type Request struct {
	Method string
	Path   string // without the query
	Query  string // undecoded, without the question mark
	Header Headers

	// Peer is the address of the sender, if the connection has one. Only AuthPath uses it.
	Peer netip.Addr

	// Body is the whole body. Serve modifies it.
	Body []byte
}

// Field is one header field of a response.
type Field struct{ Name, Value string }

// Response is filled by [Traffic.Serve]. The zero Response is ready for use; a reused one keeps its
// memory.
type Response struct {
	Status int

	// Fields are the header fields without Content-Length, which the HTTP server adds.
	Fields []Field
	Body   []byte
}

func (r *Response) reset() {
	r.Status, r.Fields, r.Body = 0, r.Fields[:0], r.Body[:0]
}

// TrafficOptions are the settings of the traffic endpoints.
type TrafficOptions struct {
	// MaxBody is the maximum size of a body in bytes; 0 means the constant MaxBody, 1 MiB. Each
	// connection may use this much memory.
	MaxBody int

	// Reservations are those of checks with reserve, and of SettlePath; nil: of this process alone.
	Reservations *reservation.Reservations

	// Auth are the options of AuthPath.
	Auth AuthOptions

	// Together means that the store decides calls together which are made at the same time, as one on
	// the network does. The checks of a batch are then made so.
	Together bool

	// JSON handles JSONPath, only over net/http; nil for no such path.
	JSON http.Handler

	// Healthy reports at HealthPath, only over net/http, whether calls are accepted; nil for no
	// such path.
	Healthy func() bool

	// OpenAPI is served at OpenAPIPath, only over net/http; nil for no such path.
	OpenAPI []byte
}

// Traffic handles the endpoints of the traffic listener: POST /v1/check, POST /v1/settle and GET /v1/auth.
// It is safe for concurrent use.
type Traffic struct {
	limiter   *limiter.Limiter
	reserved  *reservation.Reservations
	auth      *auth
	json      http.Handler // handles JSONPath
	healthy   func() bool  // answers HealthPath
	pages     staticPages  // static pages
	maxBody   int
	together  bool
	limits    limitjson.Cache
	questions sync.Pool // of *work
	exchanges sync.Pool // of *exchange, see carrier.go
}

// work is the memory for one decision.
type work struct {
	question question
	verdict  limiter.Verdict
}

// NewTraffic returns the traffic endpoints over l.
func NewTraffic(l *limiter.Limiter, options TrafficOptions) *Traffic {
	reserved := options.Reservations
	if reserved == nil {
		reserved = reservation.New(l, nil, nil)
	}
	t := &Traffic{limiter: l, reserved: reserved, auth: newAuth(l, reserved, options.Auth), json: options.JSON, healthy: options.Healthy, maxBody: options.MaxBody, together: options.Together, pages: trafficPages(&options)}
	if t.maxBody <= 0 {
		t.maxBody = MaxBody
	}
	t.limits.Init()
	t.questions.New = func() any { return new(work) }
	t.exchanges.New = func() any { return new(exchange) }
	return t
}

// CheckPath is the path of a check.
const CheckPath = "/v1/check"

// JSONPath is the path of Envoy's rate limit service in JSON.
const JSONPath = "/json"

// Serve handles req and fills resp. It blocks until the store has decided; for AuthPath also while
// a leaky bucket delays the request.
func (t *Traffic) Serve(ctx context.Context, req *Request, resp *Response) {
	resp.reset()
	resp.refuse(t.serve(ctx, req, resp))
}

// refuse fills the response with a fault, if there is one.
func (r *Response) refuse(f *jsonbody.Fault) {
	if f != nil {
		r.set("Content-Type", "application/json")
		r.Status = f.Status
		r.Body = f.Append(r.Body[:0])
	}
}

// serve fills an empty response, or returns a fault.
func (t *Traffic) serve(ctx context.Context, req *Request, resp *Response) *jsonbody.Fault {
	if req.Path == AuthPath {
		return t.auth.serve(ctx, req, resp)
	}
	if req.Path != CheckPath && req.Path != SettlePath {
		questions := "POST " + CheckPath + ", POST " + SettlePath
		if t.json != nil {
			questions += ", POST " + JSONPath
		}
		return unknownPath(req.Path, "the questions are "+questions+" and GET "+AuthPath)
	}
	if req.Method != "POST" {
		resp.set("Allow", "POST")
		return wrongMethod(req.Method, "POST")
	}
	if f := fromPage(req.Header); f != nil {
		return f
	}
	if kinds := req.Header.Values("Content-Type"); len(kinds) > 0 {
		if f := jsonbody.CheckType(kinds[0]); f != nil {
			return f
		}
	}
	if len(req.Body) > t.maxBody {
		return jsonbody.RefuseTooLarge(t.maxBody)
	}
	if req.Path == SettlePath {
		return t.settle(ctx, req, resp)
	}
	w := t.questions.Get().(*work)
	defer func() {
		if w.question.keepsLittle() {
			t.questions.Put(w)
		}
	}()
	if f := w.question.decode(req.Body, &t.limits, anyForm); f != nil {
		return f
	}
	if ids := req.Header.Values("X-Request-Id"); len(ids) > 0 {
		w.question.req.ID = ids[0]
	}
	if w.question.checks != nil {
		t.serveMany(ctx, w.question.checks, w.question.req.ID, resp)
		w.question.checks = nil
		return nil
	}
	if err := w.question.put(ctx, t.limiter, &w.verdict); err != nil {
		return noDecision(err)
	}
	resp.Status = 200
	resp.Fields = append(resp.Fields, Field{"Content-Type", "application/json"})
	resp.Body = limitjson.AppendVerdict(resp.Body, &w.verdict, w.question.req.Op == stint.AskAtMost)
	if w.question.req.Answers {
		resp.Body = t.appendReservation(resp.Body, &w.verdict)
	}
	return nil
}

// fromPage refuses requests sent by a web page in a browser. Browsers send some requests to any
// address without permission, so a page could take units of others. Requests from a browser have
// one of these fields. Calls of proxies are not checked, because they have the fields of the
// client's request.
func fromPage(h Headers) *jsonbody.Fault {
	site := h.Values("Sec-Fetch-Site")
	ours := len(site) == 0 || len(site) == 1 && (site[0] == "none" || site[0] == "same-origin")
	if ours && len(h.Values("Origin")) == 0 {
		return nil
	}
	return &jsonbody.Fault{
		Status: 403, Code: jsonbody.Forbidden,
		Problem: "a page in a browser sent this", Hint: "call it from outside a browser, without the fields Origin and Sec-Fetch-Site",
	}
}

// put sends the question to l.
func (q *question) put(ctx context.Context, l *limiter.Limiter, v *limiter.Verdict) error {
	if q.limit != nil {
		return l.DecideInline(ctx, q.key, q.limit, &q.req, v)
	}
	return l.Decide(ctx, &q.req, v)
}

func unknownPath(path, hint string) *jsonbody.Fault {
	return &jsonbody.Fault{Status: 404, Code: jsonbody.NotFound, Problem: "nothing is at " + text.Quote(path), Hint: hint}
}

func wrongMethod(method, allowed string) *jsonbody.Fault {
	return &jsonbody.Fault{
		Status: 405, Code: jsonbody.Method,
		Problem: text.Quote(method) + " is not a method of this path", Hint: "use " + allowed,
	}
}

// noDecision returns the fault for an error of a decision. If the request was wrong, the fault says
// why. If the store failed it does not: that cause is for logs and metrics only.
func noDecision(err error) *jsonbody.Fault {
	if wrong, ok := errors.AsType[*limiter.AtMostError](err); ok {
		return jsonbody.Bad("at_most", wrong.Error(), "leave out at_most")
	}
	problem, hint := response.Undecided(err)
	return &jsonbody.Fault{Status: 503, Code: jsonbody.NoDecision, Problem: problem, Hint: hint}
}
