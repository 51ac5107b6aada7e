package app

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"stint/dashboard"
	"stint/docs"
	"stint/httplimit"
	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/web"
	"stint/limiter/reservation"
	"stint/rule"
	"stint/server/access"
	"stint/server/httpapi"
	"stint/server/recordapi"
	"stint/server/ruleapi"
)

// profileTime is enough for a profile or trace of /debug/pprof, which takes 30 s unless the caller
// asks for another time.
const profileTime = 2 * time.Minute

// newHTTPServer returns a server for a handler, with bounds on what a client may use.
func newHTTPServer(handler http.Handler, limits httpapi.Limits, log *slog.Logger) answerer {
	s := httpapi.NewServer(handler, limits)
	s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	return web.NewDrainer(s)
}

// adminServer returns the server of the admin address.
func (a *App) adminServer(log *slog.Logger) answerer {
	var limits httpapi.Limits
	if a.config.Pprof {
		limits.Write = profileTime
	}
	return newHTTPServer(a.adminHandler(), limits, log)
}

func (a *App) adminHandler() http.Handler {
	options := httpapi.AdminOptions{
		Token:   a.config.AdminToken,
		Access:  a.accessFile(),
		Hosts:   a.config.AdminHosts,
		Status:  a.status,
		Metrics: a.metrics.Handler(),
		Gauges:  &a.gauges,
		Rules:   ruleapi.New(a.book, a.ruleOptions()),
		Pprof:   a.config.Pprof,
		OpenAPI: docs.OpenAPI,
		Log:     a.log,
		Reads:   a.reads(),
		Loss:    a.lossOf,
		Usage:   a.stores.Usage,
	}
	options.Records, options.RecordPaths = http.HandlerFunc(recordapi.Off), recordapi.Paths
	if a.records != nil {
		options.Records = recordapi.New(a.records, a.recordOptions())
		options.OnReset = func(r *http.Request, name string, key []rule.Entry, before any) *jsonbody.Fault {
			return recordapi.NoteReset(a.records, r, recordapi.Reset{Rule: name, Key: key, Before: before})
		}
	}
	if a.clients != nil {
		options.Overrides = a.clients.Overrides
	}
	if a.stores.Lends() {
		options.Leases = a.stores.Leases
	}
	options.PagePaths, options.Page = dashboard.Paths, func(g *access.Guard) http.Handler {
		return dashboard.New(g, dashboard.Options{Table: a.limiter.Table, Load: a.load})
	}
	return httpapi.NewAdmin(a.limiter, options)
}

// status returns the answer of /readyz.
func (a *App) status() httpapi.Status {
	s := httpapi.Status{Store: a.config.StoreName(), Generation: a.rules.generation.Load()}
	switch phase := a.phase.Load(); {
	case phase != running:
		s.Reason = phaseNames[phase]
	case a.stores.Alone():
		s.Reason = "gossip: found no other node"
	case a.lacksRecords():
		s.Reason = "records: not read from Redis yet"
	default:
		s.Ready = true
	}
	s.Catalog = a.catalogStatus()
	s.StoreError = a.stores.Problem()
	if at, failure := a.rules.last(); failure != nil {
		s.ReloadError = at.UTC().Format(time.RFC3339) + ": " + failure.Error()
	}
	return s
}

// ready reports whether clients should send calls here.
func (a *App) ready() bool {
	return a.phase.Load() == running && !a.stores.Alone() && !a.lacksRecords()
}

// readyChanged passes to the listeners whether clients should send calls. When the service has begun
// to stop, it does nothing: the listeners then report so already.
func (a *App) readyChanged() {
	a.phases.Lock()
	defer a.phases.Unlock()
	if a.phase.Load() != running {
		return
	}
	for _, l := range a.listeners {
		l.server.Ready(l.isMonitoring() || a.ready())
	}
}

// trafficHeader is the most bytes of a request's header at the HTTP address. A proxy passes on its
// client's header, so this must allow whatever the proxy allows.
const trafficHeader = 64 << 10

// trafficServer returns the server of the HTTP address.
func (a *App) trafficServer(log *slog.Logger) answerer {
	return newHTTPServer(a.otlp.Handler(a.trafficHandler()), httpapi.Limits{HeaderBytes: trafficHeader}, log)
}

func (a *App) trafficHandler() http.Handler {
	var traffic http.Handler = httpapi.NewTraffic(a.limiter, httpapi.TrafficOptions{
		Auth: httpapi.AuthOptions{
			Trusted: a.config.Proxies(), Domain: a.config.AuthDomain, Deny: a.config.AuthDeny, Wait: a.config.AuthWait,
			DegradedHeader: a.config.DegradedHeader,
			APIKeys:        a.identify(),
			OnError:        func(err error) { a.log.Error("no decision", "path", httpapi.AuthPath, "error", err) },
			OnMisuse:       a.alarms.Misuse((&logging.MisuseLog{Log: a.log, Path: httpapi.AuthPath}).Report, a.config.Proxies()),
		},
		Reservations: reservation.New(a.limiter, a.stores.Secret(), nil),

		JSON:     a.rls.JSON(),
		OpenAPI:  docs.OpenAPI,
		Healthy:  a.ready,
		Together: a.stores.OnNetwork(),
	}).Handler()
	if a.clients != nil {
		traffic = a.withUsage(traffic)
	}
	if a.config.Demo == "" {
		return traffic
	}
	demo := a.alarms.Forwarded(a.demoHandler(), a.config.Proxies())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == demoPath {
			demo.ServeHTTP(w, r)
			return
		}
		traffic.ServeHTTP(w, r)
	})
}

// demoPath is the path of the demo.
const demoPath = "/demo"

// demoHandler answers GET /demo like any handler behind httplimit.
func (a *App) demoHandler() http.Handler {
	limited := httplimit.New(a.limiter, a.config.Demo, httplimit.Options{
		Trusted: a.config.Proxies(), DegradedHeader: a.config.DegradedHeader, APIKeys: a.identify(),
		OnError: func(_ *http.Request, err error) { a.log.Error("no decision", "path", demoPath, "error", err) },
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+demoPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, "This request passed. Ask again, and look at the headers.")
	})
	return limited(mux)
}
