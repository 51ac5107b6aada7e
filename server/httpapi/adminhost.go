package httpapi

import (
	"fmt"
	"net"
	"net/http"
	httppprof "net/http/pprof"
	"runtime/pprof"
	"strings"

	"stint/internal/jsonbody"
	"stint/internal/text"
	"stint/internal/web"
)

// onlyHosts answers calls for hosts that are not allowed with 403, where no token is asked
// for. A browser lets a page call any address under the name from which the page came, once
// that name is resolved to the address; only the name tells such a call from others.
func (a *admin) onlyHosts(handler http.Handler) http.Handler {
	if a.options.Token != "" {
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
		a.refused.TellOf(r.URL.Path, web.PeerAddr(r.RemoteAddr), "a host that is not answered without an admin token", f.Hint)
		f.Write(w)
	})
}

// allows says whether calls for a host are answered without a token.
func (a *admin) allows(host string) bool {
	name := hostName(host)
	return a.hosts[name] || web.Loopback(name)
}

// hostName returns the name in a header Host: without its port, brackets and last dot, in
// small letters.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// trusts says whether who calls may read everything: by the token, or, where none is
// configured, by the host.
func (a *admin) trusts(r *http.Request) bool {
	if a.options.Token != "" {
		return a.hasToken(r)
	}
	return a.allows(r.Host)
}

// hidden stands for a text that strangers are not shown.
const hidden = "see the log, or ask with the admin token"

// withoutTexts returns the status without what names addresses, users and causes.
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

// profiles adds /debug/pprof. It has no cmdline, because a token may stand there.
func (a *admin) profiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/profile", a.withToken(httppprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", a.withToken(httppprof.Symbol))
	mux.HandleFunc("POST /debug/pprof/symbol", a.withToken(httppprof.Symbol))
	mux.HandleFunc("GET /debug/pprof/trace", a.withToken(httppprof.Trace))
	mux.HandleFunc("GET /debug/pprof/{name...}", a.withToken(a.profile))
}

// profile answers one profile, or a list of all.
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
