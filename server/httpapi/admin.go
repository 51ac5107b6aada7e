package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"

	"stint"
	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/web"
	"stint/limiter"
	"stint/load"
	"stint/server/httpapi/inline"
)

// Status is what the process says of itself, for /readyz and /v1/limits.
type Status struct {
	// Ready says whether calls are accepted. It is false before the rules are in
	// force and while the process drains.
	Ready bool

	// Reason says why not; "" while ready.
	Reason string

	// Generation counts the tables that were in force since the start.
	Generation uint64

	// ReloadError is why the last reload was refused; "" since one succeeded. The
	// process stays ready with the table it has.
	ReloadError string

	// Catalog is the rules per API; nil: there can be none.
	Catalog *CatalogStatus

	// Store names the kind of store, such as "memory". StoreError is what is wrong with
	// it, also where that concerns some calls or keys only; "" while nothing is.
	Store, StoreError string
}

// CatalogStatus is what the process says of its rules per API. Two processes with the
// same hash have the same rules.
type CatalogStatus struct {
	Rules      int    `json:"rules"`
	Generation uint64 `json:"generation"` // counts the changes since the start
	Hash       string `json:"hash"`

	// ReloadError is why the last reload of their files was refused; "" since one
	// succeeded.
	ReloadError string `json:"reload_error"`
}

// AdminOptions are the settings of the admin listener.
type AdminOptions struct {
	// Token is what calls must bring as "Authorization: Bearer TOKEN". Empty: no
	// token is asked for, [CheckAdmin] keeps the listener on loopback, and only calls for
	// the host localhost, a loopback address or one of Hosts are answered. /healthz
	// and /readyz never ask for it, so that an orchestrator needs none; they say less then.
	Token string

	// Hosts are further names, without a port, that calls may be for where no token is
	// asked for.
	Hosts []string

	// Status is asked at every call of /readyz and /v1/limits. It must not block.
	// nil: always ready.
	Status func() Status

	// Metrics answers /metrics; nil: there is none.
	Metrics http.Handler

	// Gauges are what PUT /v1/load/NAME sets, for limits that give more at a low load;
	// nil: there is no such path.
	Gauges *load.Gauges

	// Rules answers /v1/rules and all below it; nil: there are no such paths. It is given
	// paths as they were sent.
	Rules http.Handler

	// Leases returns the store that lends a take's key to nodes, and what this process has of
	// it; nil: no store lends anything.
	Leases func(*stint.Take) (LeaseStore, LocalLease)

	// Pprof switches on /debug/pprof, which always asks for the token: whoever reaches it
	// can slow the process down. Without a Token nobody reaches it.
	Pprof bool

	// OpenAPI is served at OpenAPIPath; nil: nothing is there.
	OpenAPI []byte

	// MaxBody is the most bytes of a body; 0 means the constant MaxBody.
	MaxBody int

	// Log notes every reset, and once a minute that a call was refused; nil: nobody does.
	Log *slog.Logger
}

// admin answers the admin listener.
type admin struct {
	limiter *limiter.Limiter
	options AdminOptions
	token   [sha256.Size]byte
	hosts   map[string]bool // names that are answered without a token
	refused logging.MisuseLog
	known   inline.Cache
	methods map[string][]string // by path
}

// NewAdmin returns the handler of the admin listener over l: /v1/limits,
// /v1/inspect, /v1/reset, /v1/load, /v1/rules, /rlconfig, /healthz, /readyz, /metrics and, switched on,
// /debug/pprof. Pages of other sites that a browser shows cannot make it change
// anything.
func NewAdmin(l *limiter.Limiter, options AdminOptions) http.Handler {
	if options.MaxBody <= 0 {
		options.MaxBody = MaxBody
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	a := &admin{limiter: l, options: options, token: sha256.Sum256([]byte(options.Token)), methods: map[string][]string{}}
	a.known.Init()
	a.hosts = map[string]bool{}
	for _, name := range options.Hosts {
		a.hosts[hostName(name)] = true
	}
	a.refused = logging.MisuseLog{Log: options.Log, Event: "admin call refused"}
	mux := http.NewServeMux()
	a.route(mux, "GET", "/healthz", a.health)
	a.route(mux, "GET", "/readyz", a.ready)
	a.route(mux, "GET", "/v1/limits", a.guarded(a.limits))
	a.route(mux, "GET", "/rlconfig", a.guarded(a.showConfig))
	a.route(mux, "POST", "/v1/inspect", a.guarded(a.inspect))
	a.route(mux, "POST", "/v1/reset", a.guarded(a.reset))
	if options.Gauges != nil {
		mux.HandleFunc("GET /v1/load", a.guarded(a.loads))
		mux.HandleFunc("/v1/load", refuse("GET, HEAD"))
		mux.HandleFunc("GET /v1/load/{name...}", a.guarded(a.showLoad))
		mux.HandleFunc("PUT /v1/load/{name...}", a.guarded(a.setLoad))
		mux.HandleFunc("/v1/load/{name...}", refuse("GET, HEAD, PUT"))
	}
	if options.Metrics != nil {
		a.route(mux, "GET", "/metrics", a.guarded(options.Metrics.ServeHTTP))
	}
	if options.Pprof {
		a.profiles(mux)
	}
	read := adminPages(&a.options)
	mux.HandleFunc("/", a.guardedPages(read))
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(a.crossSite))
	return sameSite.Handler(a.onlyHosts(a.withRules(mux)))
}

// withRules sends the paths of rules to what answers them, past the mux, which would
// clean the ids in them.
func (a *admin) withRules(others http.Handler) http.Handler {
	if a.options.Rules == nil {
		return others
	}
	rules := a.guarded(a.options.Rules.ServeHTTP)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/rules" || strings.HasPrefix(r.URL.Path, "/v1/rules/") {
			rules(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// route serves one method of a path; all others are answered by 405.
func (a *admin) route(mux *http.ServeMux, method, path string, handler http.HandlerFunc) {
	a.methods[path] = append(a.methods[path], method)
	if method == "GET" {
		a.methods[path] = append(a.methods[path], "HEAD")
	}
	mux.HandleFunc(method+" "+path, handler)
}

// unknown answers what no route does.
func (a *admin) unknown(w http.ResponseWriter, r *http.Request) {
	if methods := a.methods[r.URL.Path]; methods != nil {
		refuse(strings.Join(methods, ", "))(w, r)
		return
	}
	unknownPath(r.URL.Path, "see docs/openapi.yaml for what is on this listener").Write(w)
}

// guardedPages answers what there is to read, and what no route does.
func (a *admin) guardedPages(read pages) http.HandlerFunc {
	show := a.guarded(func(w http.ResponseWriter, r *http.Request) { read.serve(w, r) })
	return func(w http.ResponseWriter, r *http.Request) {
		if _, ok := read[r.URL.Path]; ok {
			show(w, r)
			return
		}
		a.unknown(w, r)
	}
}

// refuse answers a method that a path does not have.
func refuse(allowed string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		wrongMethod(r.Method, allowed).Write(w)
	}
}

func (a *admin) crossSite(w http.ResponseWriter, _ *http.Request) {
	(&jsonbody.Fault{
		Status: http.StatusForbidden, Code: jsonbody.Forbidden,
		Problem: "a page of another site sent this", Hint: "call it from outside a browser",
	}).Write(w)
}

// guarded asks for the token, if one is configured.
func (a *admin) guarded(handler http.HandlerFunc) http.HandlerFunc {
	if a.options.Token == "" {
		return handler
	}
	return a.withToken(handler)
}

// withToken asks for the token. Where none is configured there is no right one.
func (a *admin) withToken(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.hasToken(r) {
			handler(w, r)
			return
		}
		f := &jsonbody.Fault{
			Status: http.StatusUnauthorized, Code: jsonbody.Unauthorized,
			Problem: "the admin token is missing or wrong", Hint: "send it as Authorization: Bearer TOKEN",
		}
		if a.options.Token == "" {
			f.Problem, f.Hint = "this asks for an admin token always, and none is configured", "start the service with --admin-token-file FILE"
		}
		a.refused.TellOf(r.URL.Path, web.PeerAddr(r.RemoteAddr), f.Problem, f.Hint)
		w.Header().Set("WWW-Authenticate", `Bearer realm="stint admin"`)
		f.Write(w)
	}
}

// hasToken says whether a call brings the token that is configured.
func (a *admin) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Hashes are compared, in constant time, so that time tells neither the token
	// nor its length.
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return a.options.Token != "" && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], a.token[:]) == 1
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
