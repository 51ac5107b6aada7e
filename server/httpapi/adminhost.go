package httpapi

import (
	"fmt"
	"net/http"
	httppprof "net/http/pprof"
	"runtime/pprof"

	"stint/internal/jsonbody"
	"stint/internal/logging"
	"stint/internal/text"
	"stint/internal/web"
	"stint/server/access"
)

// onlyHosts answers calls for other hosts with 403 if no token is configured. A web page may call
// any address under the name of its own site if that name resolves to the address (DNS rebinding).
// Such a call differs from others only in the host name.
func (a *admin) onlyHosts(handler http.Handler) http.Handler {
	if !a.guard.Open() {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.allows(r.Host) || r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			handler.ServeHTTP(w, r)
			return
		}
		f := &jsonbody.Fault{
			Status: http.StatusForbidden, Code: jsonbody.Forbidden,
			Problem: "the host " + text.Quote(r.Host) + " is not answered without an admin token",
			Hint:    "call localhost or a loopback address, name the host in --admin-host, or set an admin token",
		}
		a.refused.ReportAt(logging.Route(r, a.guard.Routes...), web.PeerAddr(r.RemoteAddr), "a host that is not answered without an admin token", f.Hint)
		f.Write(w)
	})
}

// allows reports whether calls for a host are answered without a token.
func (a *admin) allows(host string) bool {
	name := web.HostName(host)
	return a.hosts[name] || web.Loopback(name)
}

// trusts reports whether the caller may read everything: it has a token or a session or, if no token is
// configured, an allowed host.
func (a *admin) trusts(r *http.Request) bool {
	if !a.guard.Open() {
		return a.guard.Knows(r)
	}
	return a.allows(r.Host)
}

// hidden replaces a text that untrusted callers must not read.
const hidden = "see the log, or ask with the admin token"

// withoutTexts returns the status without texts that may contain addresses, users or causes.
func (s Status) withoutTexts() Status {
	hide := func(text *string) {
		if *text != "" {
			*text = hidden
		}
	}
	hide(&s.ReloadError)
	hide(&s.StoreError)
	if s.Catalog != nil {
		c := *s.Catalog
		hide(&c.ReloadError)
		s.Catalog = &c
	}
	return s
}

// profiles adds /debug/pprof without cmdline, because the command line may contain a token.
func (a *admin) profiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/profile", a.guard.Require(access.Write, httppprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", a.guard.Require(access.Write, httppprof.Symbol))
	mux.HandleFunc("POST /debug/pprof/symbol", a.guard.Require(access.Write, httppprof.Symbol))
	mux.HandleFunc("GET /debug/pprof/trace", a.guard.Require(access.Write, httppprof.Trace))
	mux.HandleFunc("GET /debug/pprof/{name...}", a.guard.Require(access.Write, a.profile))
}

// profile serves one profile, or a list of all.
func (a *admin) profile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name != "" {
		if pprof.Lookup(name) == nil {
			a.unknown(w, r)
			return
		}
		httppprof.Handler(name).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, p := range pprof.Profiles() {
		fmt.Fprintln(w, p.Name(), p.Count())
	}
	fmt.Fprintln(w, "profile\ntrace\nsymbol")
}
