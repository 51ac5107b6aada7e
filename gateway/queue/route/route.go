// Package route sends requests through the rest of a Caddy route: through the handlers behind the one that
// queued them, in the configuration in force.
package route

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/gateway/queue"
)

// Site is a handler that queues requests.
type Site struct {
	Domain  string // of its rules
	Name    string // of its directive: records remember which one queued them
	Server  *caddyhttp.Server
	Handler caddyhttp.MiddlewareHandler
}

// Sites are all such handlers of a configuration. The zero Sites is ready to use, and safe for concurrent
// use.
type Sites struct {
	mu    sync.Mutex
	sites []Site
}

// Add adds a handler, when it is provisioned.
func (s *Sites) Add(site Site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sites = append(s.sites, site)
}

// All returns all handlers.
func (s *Sites) All() []Site {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sites)
}

// place is where a handler stands.
type place struct {
	matchers []caddyhttp.MatcherSets // of its routes, from the outside to the inside
	next     caddyhttp.Handler       // what is behind it
}

// matches reports whether a request comes to the place, apart from changes that handlers before it make.
func (p *place) matches(r *http.Request) bool {
	return !slices.ContainsFunc(p.matchers, func(sets caddyhttp.MatcherSets) bool {
		ok, err := sets.AnyMatchWithError(r)
		return !ok || err != nil
	})
}

// nothing is behind the last handler of a terminal route. Like Caddy it answers with 200 and no body.
var nothing = caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })

// find returns the place of a handler in a list of routes, before which the handlers next come.
func find(routes caddyhttp.RouteList, target caddyhttp.MiddlewareHandler, next caddyhttp.Handler) *place {
	for i := range routes {
		route := &routes[i]
		for j, h := range route.Handlers {
			sub, isSub := h.(*caddyhttp.Subroute)
			if h != target && !isSub {
				continue
			}
			behind := chain(route.Handlers[j+1:], after(routes, i, next))
			found := &place{next: behind}
			if isSub {
				found = find(sub.Routes, target, behind)
			}
			if found != nil {
				found.matchers = append([]caddyhttp.MatcherSets{route.MatcherSets}, found.matchers...)
				return found
			}
		}
	}
	return nil
}

// after returns what is behind route i of a list. Routes of its group are not: Caddy runs one of a group.
func after(routes caddyhttp.RouteList, i int, next caddyhttp.Handler) caddyhttp.Handler {
	if routes[i].Terminal {
		return nothing
	}
	group := routes[i].Group
	rest := slices.DeleteFunc(slices.Clone(routes[i+1:]), func(r caddyhttp.Route) bool { return group != "" && r.Group == group })
	return rest.Compile(next)
}

// chain returns a handler that runs handlers, and then next.
func chain(handlers []caddyhttp.MiddlewareHandler, next caddyhttp.Handler) caddyhttp.Handler {
	for _, h := range slices.Backward(handlers) {
		behind := next
		next = caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, behind) })
	}
	return next
}

// errNoRoute means that the configuration has no handler for a record.
var errNoRoute = errors.New("no route of this configuration queues such requests")

// Deliver sends the request of a record through the handlers behind the one that queued it, see
// [queue.Deliver].
func (s *Sites) Deliver(ctx context.Context, record *queue.Record, r *http.Request) (*http.Response, error) {
	site, place := s.locate(ctx, record, r)
	if place == nil {
		return nil, fmt.Errorf("%w: domain %s, host %s", errNoRoute, record.Domain, record.Host)
	}
	r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor = r.URL.RequestURI(), "HTTP/1.1", 1, 1
	if record.Scheme == "https" {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: record.Host}
	}
	r.URL.Scheme, r.URL.Host = "", "" // as a server gets it
	return queue.ServeTo(func(w http.ResponseWriter, r *http.Request) error {
		r = prepare(w, r, site.Server, record)
		return answerOf(w, place.next.ServeHTTP(w, r))
	}, r)
}

// prepare returns the request as Caddy gives it to handlers.
func prepare(w http.ResponseWriter, r *http.Request, server *caddyhttp.Server, record *queue.Record) *http.Request {
	replacer := caddy.NewReplacer()
	r = caddyhttp.PrepareRequest(r, replacer, w, server)
	if record.Identity != "" {
		replacer.Set("http.auth.user.id", record.Identity)
	}
	return r
}

// answerOf answers with the status of an error that has one; other errors are no answer.
func answerOf(w http.ResponseWriter, err error) error {
	if failure, ok := errors.AsType[caddyhttp.HandlerError](err); ok && failure.StatusCode >= 400 {
		w.WriteHeader(failure.StatusCode)
		return nil
	}
	return err
}

// locate returns the handler for a record: that of its domain and directive to whose route its request
// comes, as the client sent it or as it was when it was queued; else the only one of its domain.
func (s *Sites) locate(ctx context.Context, record *queue.Record, r *http.Request) (Site, *place) {
	s.mu.Lock()
	sites := slices.Clone(s.sites)
	s.mu.Unlock()
	sites = slices.DeleteFunc(sites, func(one Site) bool { return one.Domain != record.Domain || one.Name != record.Route })
	var original *http.Request
	if u, err := url.ParseRequestURI(record.Original); err == nil && record.Original != record.URI {
		original = r.Clone(ctx)
		original.URL = u
	}
	var known []Site
	var places []*place
	for _, site := range sites {
		if p := find(site.Server.Routes, site.Handler, nothing); p != nil {
			known, places = append(known, site), append(places, p)
		}
	}
	for _, one := range []*http.Request{original, r} {
		if one == nil {
			continue
		}
		for i, p := range places {
			if p.matches(prepare(new(blank), one.Clone(ctx), known[i].Server, record)) {
				return known[i], p
			}
		}
	}
	if len(places) == 1 {
		return known[0], places[0]
	}
	return Site{}, nil
}

// blank is a ResponseWriter of a request that is only matched.
type blank struct{ header http.Header }

// Header implements http.ResponseWriter.
func (b *blank) Header() http.Header {
	if b.header == nil {
		b.header = http.Header{}
	}
	return b.header
}

// Write implements http.ResponseWriter.
func (b *blank) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (b *blank) WriteHeader(int) {}

// Has reports whether a handler for which is returns true stands behind a handler of a server, so that
// requests may come to it.
func Has(server *caddyhttp.Server, target caddyhttp.MiddlewareHandler, is func(caddyhttp.MiddlewareHandler) bool) bool {
	found, passed := false, false
	var walk func(routes caddyhttp.RouteList)
	walk = func(routes caddyhttp.RouteList) {
		for i := range routes {
			for _, h := range routes[i].Handlers {
				passed = passed || h == target
				found = found || passed && is(h)
				if sub, ok := h.(*caddyhttp.Subroute); ok {
					walk(sub.Routes)
				}
			}
		}
	}
	walk(server.Routes)
	return found
}

// Precedes reports whether a handler for which is returns true stands before a handler of a server, so that
// requests may pass it on their way there.
func Precedes(server *caddyhttp.Server, target caddyhttp.MiddlewareHandler, is func(caddyhttp.MiddlewareHandler) bool) bool {
	found, _ := precedes(server.Routes, target, is)
	return found
}

func precedes(routes caddyhttp.RouteList, target caddyhttp.MiddlewareHandler, is func(caddyhttp.MiddlewareHandler) bool) (found, reached bool) {
	for i := range routes {
		for _, h := range routes[i].Handlers {
			if h == target {
				return found, true
			}
			if sub, ok := h.(*caddyhttp.Subroute); ok {
				if inside, reached := precedes(sub.Routes, target, is); reached {
					return found || inside, true
				}
			}
			found = found || is(h)
		}
	}
	return false, false
}
