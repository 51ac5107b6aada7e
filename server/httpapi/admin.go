package httpapi

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"stint"
	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/transaction"
	"stint/internal/web"
	"stint/limiter"
	"stint/load"
	"stint/rule"
	"stint/server/access"
	"stint/server/httpapi/limitjson"
)

// Status is the state of the process for /readyz and /v1/limits.
type Status struct {
	// Ready is whether calls are accepted. It is false before rules are in force and while the
	// process drains.
	Ready bool

	// Reason is why the process is not ready; "" if it is.
	Reason string

	// Generation is the number of rule tables put in force since the start.
	Generation uint64

	// ReloadError is why the last reload was refused; "" if it succeeded. The process stays ready
	// with the old table.
	ReloadError string

	// Catalog is the state of the rules per API; nil if they are not enabled.
	Catalog *CatalogStatus

	// Store is the kind of store, such as "memory". StoreError is its current problem, even if it
	// affects only some calls or keys; "" for none.
	Store, StoreError string
}

// CatalogStatus is the state of the rules per API. Two processes with the same hash have the same
// rules.
type CatalogStatus struct {
	Rules      int    `json:"rules"`
	Generation uint64 `json:"generation"` // number of changes since the start
	Hash       string `json:"hash"`

	// ReloadError is why the last reload of the files was refused; "" if it succeeded.
	ReloadError string `json:"reload_error"`
}

// AdminOptions are the settings of the admin listener.
type AdminOptions struct {
	// Token is the token that calls must send as "Authorization: Bearer TOKEN". If it is empty, no
	// token is required, [CheckAdmin] restricts the listener to loopback, and only calls for the
	// host localhost, a loopback address or one of Hosts are answered. /healthz and /readyz never
	// require it, so an orchestrator needs no token; without it they omit details. Its role is
	// write.
	Token string

	// Access returns the callers with a name and a role, who send their own tokens or certificates;
	// nil for none. It is called for every request.
	Access func() *access.List

	// Hosts are additional host names, without port, that are answered if no token is configured.
	Hosts []string

	// Status is called for every request of /readyz and /v1/limits. It must not block. nil means
	// always ready.
	Status func() Status

	// Metrics handles /metrics; nil for no such path.
	Metrics http.Handler

	// Gauges are the loads that PUT /v1/load/NAME sets, for limits that allow more at a low load;
	// nil for no such path.
	Gauges *load.Gauges

	// Rules handles /v1/rules and all paths below; nil for no such paths. It receives the path as
	// it was sent.
	Rules http.Handler

	// Records handles RecordPaths and all paths below; nil for no such paths. It receives the path as
	// it was sent, and checks itself which callers may change something.
	Records     http.Handler
	RecordPaths []string

	// Reads handles further paths and all below them, for callers with the role read. A handler
	// receives the path as it was sent.
	Reads map[string]http.Handler

	// Page returns the handler of the operators' page for the callers of a guard: of PagePaths, and of /
	// for browsers. It checks itself who may call. nil for no page.
	Page      func(*access.Guard) http.Handler
	PagePaths []string

	// OnReset is called before a limit is reset for a key, with the rule, the entries of the key and
	// the state of the limit, which it can encode as JSON. A fault refuses the reset. It may be nil.
	OnReset func(r *http.Request, rule string, key []rule.Entry, before any) *jsonbody.Fault

	// Usage returns what a take's key used of its grants and of its rollover. Nil: inspect shows neither.
	Usage func(ctx context.Context, t *stint.Take) (transaction.Usage, error)

	// Leases returns the store that lends units of a take's key to nodes, and the units that this
	// process has; nil if no store lends units.
	Leases func(*stint.Take) (limitjson.LeaseStore, limitjson.LocalLease)

	// Loss returns the loss because of which a durable rule follows its failure policy; nil for none. It may be
	// nil itself.
	Loss func(*rule.Rule) *limitjson.Loss

	// Overrides returns the number of overrides of each rule, by its name; nil if there are none.
	Overrides func() map[string]int

	// Pprof enables /debug/pprof. It always requires the token, because profiling can slow the
	// process down; without a Token nobody can call it.
	Pprof bool

	// OpenAPI is served at OpenAPIPath; nil for no such path.
	OpenAPI []byte

	// MaxBody is the maximum size of a body in bytes; 0 means the constant MaxBody.
	MaxBody int

	// Log receives every reset, and at most once a minute a refused call. It may be nil.
	Log *slog.Logger
}

// admin handles the requests of the admin listener.
type admin struct {
	limiter *limiter.Limiter
	options AdminOptions
	guard   access.Guard
	hosts   map[string]bool // host names answered without a token
	refused logging.MisuseLog
	known   limitjson.Cache
	methods map[string][]string // methods by path
}

// NewAdmin returns the handler of the admin listener over l: /v1/limits, /v1/inspect, /v1/reset,
// /v1/load, /v1/rules, /rlconfig, /healthz, /readyz, /metrics and, if enabled, /debug/pprof. Web
// pages of other sites cannot make a browser change anything through it.
func NewAdmin(l *limiter.Limiter, options AdminOptions) http.Handler {
	if options.MaxBody <= 0 {
		options.MaxBody = MaxBody
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	a := &admin{limiter: l, options: options, methods: map[string][]string{}}
	a.known.Init()
	a.hosts = map[string]bool{}
	for _, name := range options.Hosts {
		a.hosts[web.HostName(name)] = true
	}
	a.refused = logging.MisuseLog{Log: options.Log, Event: "admin call refused"}
	a.guard.Refused = &a.refused
	a.guard.Lists = access.Lists(options.Token, options.Access)
	mux := http.NewServeMux()
	a.route(mux, "GET", "/healthz", a.health)
	a.route(mux, "GET", "/readyz", a.ready)
	a.route(mux, "GET", "/v1/limits", a.guarded(access.Read, a.limits))
	a.route(mux, "GET", "/rlconfig", a.guarded(access.Read, a.showConfig))
	a.route(mux, "POST", "/v1/inspect", a.guarded(access.Read, a.inspect))
	a.route(mux, "POST", "/v1/reset", a.guarded(access.Support, a.reset))
	if options.Gauges != nil {
		api := &load.API{Gauges: options.Gauges, Names: a.gauges, MaxBody: options.MaxBody, Log: options.Log}
		mux.HandleFunc("GET /v1/load", a.guarded(access.Read, api.List))
		mux.HandleFunc("/v1/load", refuse("GET, HEAD"))
		mux.HandleFunc("GET /v1/load/{name...}", a.guarded(access.Read, api.Show))
		mux.HandleFunc("PUT /v1/load/{name...}", a.guarded(access.Write, api.Set))
		mux.HandleFunc("/v1/load/{name...}", refuse("GET, HEAD, PUT"))
	}
	if options.Metrics != nil {
		a.route(mux, "GET", "/metrics", a.guarded(access.Read, options.Metrics.ServeHTTP))
	}
	if options.Pprof {
		a.profiles(mux)
	}
	pages := adminPages(&a.options)
	front := a.guardedPages(pages)
	if options.Page != nil {
		front = a.withPage(mux, options.Page(&a.guard), front)
	}
	mux.HandleFunc("/", front)
	raw := a.raw()
	for _, paths := range []iter.Seq[string]{maps.Keys(a.methods), maps.Keys(pages), maps.Keys(raw), slices.Values(options.PagePaths), slices.Values([]string{"/v1/load", "/debug/pprof"})} {
		a.guard.Routes = slices.AppendSeq(a.guard.Routes, paths)
	}
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(a.crossSite))
	return sameSite.Handler(a.onlyHosts(withRaw(raw, mux)))
}

// gauges returns the names of the gauges that the current rules use.
func (a *admin) gauges() []string {
	if table := a.limiter.Table(); table != nil {
		return table.Gauges()
	}
	return nil
}

// raw returns the handlers of the paths of rules and records, which get their calls directly, because the
// mux would normalize the names in them.
func (a *admin) raw() map[string]http.HandlerFunc {
	look := func(h http.Handler) http.HandlerFunc { return a.guarded(access.Read, h.ServeHTTP) }
	raw := map[string]http.HandlerFunc{}
	if a.options.Rules != nil {
		show, change := look(a.options.Rules), a.guarded(access.Write, a.options.Rules.ServeHTTP)
		raw["/v1/rules"] = func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				show(w, r)
			} else {
				change(w, r)
			}
		}
	}
	for _, path := range a.options.RecordPaths {
		raw[path] = look(a.options.Records)
	}
	for path, handler := range a.options.Reads {
		raw[path] = look(handler)
	}
	return raw
}

// withRaw passes the paths of raw, and those below, to its handlers.
func withRaw(raw map[string]http.HandlerFunc, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for path, handler := range raw {
			if r.URL.Path == path || strings.HasPrefix(r.URL.Path, path+"/") {
				handler(w, r)
				return
			}
		}
		others.ServeHTTP(w, r)
	})
}

// route serves one method of a path; other methods get 405.
func (a *admin) route(mux *http.ServeMux, method, path string, handler http.HandlerFunc) {
	a.methods[path] = append(a.methods[path], method)
	if method == "GET" {
		a.methods[path] = append(a.methods[path], "HEAD")
	}
	mux.HandleFunc(method+" "+path, handler)
}

// unknown handles paths without a route.
func (a *admin) unknown(w http.ResponseWriter, r *http.Request) {
	if methods := a.methods[r.URL.Path]; methods != nil {
		refuse(strings.Join(methods, ", "))(w, r)
		return
	}
	unknownPath(r.URL.Path, "see docs/openapi.yaml for what is on this listener").Write(w)
}

// guardedPages serves the static pages; other paths are unknown.
func (a *admin) guardedPages(read staticPages) http.HandlerFunc {
	show := a.guarded(access.Read, func(w http.ResponseWriter, r *http.Request) { servePage(read, w, r) })
	return func(w http.ResponseWriter, r *http.Request) {
		if _, ok := read[r.URL.Path]; ok {
			show(w, r)
			return
		}
		a.unknown(w, r)
	}
}

// withPage serves the operators' page. text answers clients of / that do not show pages, and unknown
// paths.
func (a *admin) withPage(mux *http.ServeMux, page http.Handler, text http.HandlerFunc) http.HandlerFunc {
	for _, path := range a.options.PagePaths {
		mux.Handle(path, page)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			text(w, r)
			return
		}
		w.Header().Set("Vary", "Accept")
		if web.PrefersHTML(r.Header.Values("Accept")) {
			page.ServeHTTP(w, r)
			return
		}
		text(w, r)
	}
}

// refuse returns a handler for methods that a path does not support.
func refuse(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		wrongMethod(r.Method, allowed).Write(w)
	}
}

// guarded requires a caller with a role, unless no callers are configured.
func (a *admin) guarded(role access.Role, handler http.HandlerFunc) http.HandlerFunc {
	return a.guard.Guarded(role, handler)
}

func (a *admin) crossSite(w http.ResponseWriter, _ *http.Request) {
	(&jsonbody.Fault{
		Status: http.StatusForbidden, Code: jsonbody.Forbidden,
		Problem: "a page of another site sent this", Hint: "call it from outside a browser",
	}).Write(w)
}

func (a *admin) status() Status {
	if a.options.Status == nil {
		return Status{Ready: true}
	}
	return a.options.Status()
}

// healthAnswer is the answer to /healthz.
type healthAnswer struct {
	Status string `json:"status"`
}

func (a *admin) health(w http.ResponseWriter, _ *http.Request) {
	jsonbody.WriteJSON(w, http.StatusOK, healthAnswer{"ok"})
}

// readyAnswer is the answer to /readyz.
type readyAnswer struct {
	Ready  bool       `json:"ready"`
	Reason string     `json:"reason"`
	Rules  readyRules `json:"rules"`
	Store  readyStore `json:"store"`

	Catalog *CatalogStatus `json:"catalog,omitempty"`
}

type readyRules struct {
	Hash        string `json:"hash"`
	Generation  uint64 `json:"generation"`
	Count       int    `json:"count"`
	ReloadError string `json:"reload_error"`
}

type readyStore struct {
	Kind  string `json:"kind"`
	Error string `json:"error"`
}

func (a *admin) ready(w http.ResponseWriter, r *http.Request) {
	s := a.status()
	if !a.trusts(r) {
		s = s.withoutTexts()
	}
	answer := readyAnswer{
		Ready: s.Ready, Reason: s.Reason,
		Rules: readyRules{Generation: s.Generation, ReloadError: s.ReloadError},
		Store: readyStore{s.Store, s.StoreError}, Catalog: s.Catalog,
	}
	if table := a.limiter.Table(); table != nil {
		answer.Rules.Hash, answer.Rules.Count = table.Hash(), len(table.Rules())
	}
	status := http.StatusOK
	if !s.Ready {
		status = http.StatusServiceUnavailable
	}
	jsonbody.WriteJSON(w, status, answer)
}
