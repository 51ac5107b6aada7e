package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/limiter"
	"stint/server/httpapi/inline"
)

// MaxBody is the most bytes of a request's body where nothing else is configured.
const MaxBody = 1 << 20

// Headers is what the API reads of the header of a request.
type Headers interface {
	// Values returns all values of a header, in their order. The name may be written in
	// any case, and is fastest as net/http spells it.
	Values(name string) []string
}

// Request is an HTTP request as any carrier can hand it over.
type Request struct {
	Method string
	Path   string // without the query
	Query  string // raw, without the question mark
	Header Headers

	// Peer is who sent it, of a connection between two addresses. Only AuthPath asks.
	Peer netip.Addr

	// Body is the whole body. The API writes into it while it reads it.
	Body []byte
}

// Field is one header field of a response.
type Field struct{ Name, Value string }

// Response is filled in by [Traffic.Serve]. The zero Response is ready; one that is
// used again keeps its memory.
type Response struct {
	Status int

	// Fields are the header fields, but for Content-Length, which the carrier knows.
	Fields []Field
	Body   []byte
}

func (r *Response) reset() {
	r.Status, r.Fields, r.Body = 0, r.Fields[:0], r.Body[:0]
}

// TrafficOptions are the settings of the traffic endpoints.
type TrafficOptions struct {
	// MaxBody is the most bytes of a body; 0 means the constant MaxBody, 1 MiB. Each
	// connection that sends one may hold this much memory.
	MaxBody int

	// Auth are those of AuthPath.
	Auth AuthOptions

	// JSON answers JSONPath, over HTTP alone; nil: nothing is there.
	JSON http.Handler

	// Healthy says at HealthPath, over HTTP alone, whether calls are taken; nil: nothing
	// is there.
	Healthy func() bool

	// OpenAPI is served at OpenAPIPath, over HTTP alone; nil: nothing is there.
	OpenAPI []byte
}

// Traffic answers the endpoints of the traffic listener: POST /v1/check and GET
// /v1/auth. It is safe for concurrent use.
type Traffic struct {
	limiter   *limiter.Limiter
	auth      *auth
	json      http.Handler // of JSONPath
	healthy   func() bool  // of HealthPath
	pages     pages        // what is there to read
	maxBody   int
	limits    inline.Cache
	questions sync.Pool // of *work
	exchanges sync.Pool // of *exchange, see carrier.go
}

// work is the memory of one decision.
type work struct {
	question question
	verdict  limiter.Verdict
}

// NewTraffic returns the traffic endpoints over l.
func NewTraffic(l *limiter.Limiter, options TrafficOptions) *Traffic {
	t := &Traffic{limiter: l, auth: newAuth(l, options.Auth), json: options.JSON, healthy: options.Healthy, maxBody: options.MaxBody, pages: trafficPages(&options)}
	if t.maxBody <= 0 {
		t.maxBody = MaxBody
	}
	t.limits.Init()
	t.questions.New = func() any { return new(work) }
	t.exchanges.New = func() any { return new(exchange) }
	return t
}

// CheckPath is the path of the question that services ask.
const CheckPath = "/v1/check"

// JSONPath is where Envoy's rate limit service is asked in JSON.
const JSONPath = "/json"

// Serve answers req into resp. It blocks as long as the store does, and AuthPath for as
// long as a leaky bucket delays the request.
func (t *Traffic) Serve(ctx context.Context, req *Request, resp *Response) {
	resp.reset()
	resp.refuse(t.serve(ctx, req, resp))
}

// refuse makes the response that of a fault, if there is one.
func (r *Response) refuse(f *jsonbody.Fault) {
	if f != nil {
		r.set("Content-Type", "application/json")
		r.Status = f.Status
		r.Body = f.Append(r.Body[:0])
	}
}

// serve is Serve into an empty response, but for the fault of the request.
func (t *Traffic) serve(ctx context.Context, req *Request, resp *Response) *jsonbody.Fault {
	if req.Path == AuthPath {
		return t.auth.serve(ctx, req, resp)
	}
	if req.Path != CheckPath {
		questions := "POST " + CheckPath
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
		if f := checkType(kinds[0]); f != nil {
			return f
		}
	}
	if len(req.Body) > t.maxBody {
		return jsonbody.RefuseTooLarge(t.maxBody)
	}
	w := t.questions.Get().(*work)
	defer func() {
		if w.question.keepsLittle() {
			t.questions.Put(w)
		}
	}()
	if f := w.question.decode(req.Body, &t.limits); f != nil {
		return f
	}
	if err := w.question.put(ctx, t.limiter, &w.verdict); err != nil {
		return noDecision(err)
	}
	resp.Status = 200
	resp.Fields = append(resp.Fields, Field{"Content-Type", "application/json"})
	resp.Body = appendVerdict(resp.Body, &w.verdict)
	return nil
}

// fromPage refuses what a page in a browser sent: it could take units of others, since
// browsers send some requests to any address without asking. What a browser sends has one
// of these fields. A proxy's question is not looked at in this way, because its fields are
// the client's.
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

// put asks l the question.
func (q *question) put(ctx context.Context, l *limiter.Limiter, v *limiter.Verdict) error {
	if q.limit != nil {
		return l.DecideInline(ctx, q.key, q.limit, &q.req, v)
	}
	return l.Decide(ctx, &q.req, v)
}

// checkType accepts JSON, no type at all, and what curl sends with -d when nobody
// told it otherwise.
func checkType(value string) *jsonbody.Fault {
	kind, _, _ := strings.Cut(value, ";")
	kind = strings.Trim(kind, " \t")
	for _, known := range []string{"", "application/json", "application/x-www-form-urlencoded"} {
		if strings.EqualFold(kind, known) {
			return nil
		}
	}
	return &jsonbody.Fault{
		Status: 415, Code: jsonbody.MediaType,
		Problem: "the content type is " + text.Quote(value), Hint: "send JSON as application/json",
	}
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

// noDecision answers an error of the store. What went wrong inside is for the log
// and the metrics, not for the client.
func noDecision(err error) *jsonbody.Fault {
	f := &jsonbody.Fault{
		Status: 503, Code: jsonbody.NoDecision,
		Problem: "the store could not decide",
		Hint:    "try again, or let the rule say what happens then (on_store_failure)",
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		f.Problem = "the store did not decide in time"
	}
	return f
}
