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
	"strings"
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

// Listen returns the addresses of the server, by which records remember it.
func (s *Site) Listen() string { return strings.Join(s.Server.Listen, " ") }

// place is where a handler stands.
type place struct {
	matchers []caddyhttp.MatcherSets // of its routes, from the outside to the inside
	setters  []setter                // what is before it and sets variables, in order
	next     caddyhttp.Handler       // what is behind it
}

// setter is a handler that only sets variables or placeholders, such as those of the directives map and root.
// Handlers behind it read them, so it runs again for a request from the queue.
type setter struct {
	matchers caddyhttp.MatcherSets
	handler  caddyhttp.MiddlewareHandler
}

// settersOf returns those of a route among its first handlers.
func settersOf(route *caddyhttp.Route, handlers []caddyhttp.MiddlewareHandler) (list []setter) {
	for _, h := range handlers {
		if m, ok := h.(caddy.Module); ok {
			switch m.CaddyModule().ID {
			case "http.handlers.vars", "http.handlers.map":
				list = append(list, setter{route.MatcherSets, h})
			}
		}
	}
	return list
}

// set runs the setters of a request.
func (p *place) set(w http.ResponseWriter, r *http.Request) error {
	for _, one := range p.setters {
		if !matches(one.matchers, r) {
			continue
		}
		if err := one.handler.ServeHTTP(w, r, nothing); err != nil {
			return err
		}
	}
	return nil
}

// comes reports whether a request comes to the place. A handler between two of its routes may have changed the
// original request to r, such as handle_path: those before it match the original.
func (p *place) comes(original, r *http.Request) bool {
	for n := len(p.matchers); n >= 0; n-- {
		if all(p.matchers[:n], original) && all(p.matchers[n:], r) {
			return true
		}
	}
	return false
}

// all reports whether a request matches all routes.
func all(routes []caddyhttp.MatcherSets, r *http.Request) bool {
	return !slices.ContainsFunc(routes, func(sets caddyhttp.MatcherSets) bool { return !matches(sets, r) })
}

func matches(sets caddyhttp.MatcherSets, r *http.Request) bool {
	ok, err := sets.AnyMatchWithError(r)
	return ok && err == nil
}

// fits reports whether the place is for the host, path and method of a request, whatever else its routes match:
// that may be something which is not stored.
func (p *place) fits(original, r *http.Request) bool {
	return !slices.ContainsFunc(p.matchers, func(sets caddyhttp.MatcherSets) bool {
		return len(sets) > 0 && !slices.ContainsFunc(sets, func(set caddyhttp.MatcherSet) bool {
			return !slices.ContainsFunc(set, func(m any) bool {
				switch m := m.(type) {
				case *caddyhttp.MatchHost:
					return !m.Match(r)
				case *caddyhttp.MatchPath:
					return !m.Match(r) && !m.Match(original)
				case *caddyhttp.MatchMethod:
					return !m.Match(r)
				}
				return false
			})
		})
	})
}

// Found reports whether Deliver finds a handler of a server. It finds none inside named routes and error routes.
func Found(server *caddyhttp.Server, handler caddyhttp.MiddlewareHandler) bool {
	return find(server.Routes, handler, nothing) != nil
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
				var before []setter
				for k := range i {
					before = append(before, settersOf(&routes[k], routes[k].Handlers)...)
				}
				before = append(before, settersOf(route, route.Handlers[:j])...)
				found.setters = append(before, found.setters...)
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
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	if record.Scheme == "https" {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: record.Host}
	}
	site, place := s.locate(ctx, record, r)
	if place == nil {
		return nil, fmt.Errorf("%w: domain %s, host %s", errNoRoute, record.Domain, record.Host)
	}
	queued := *r.URL
	queued.Scheme, queued.Host = "", "" // as a server gets it
	aim(r, originalOf(record, &queued))
	return queue.ServeTo(func(w http.ResponseWriter, r *http.Request) error {
		r = prepare(w, r, site.Server, record)
		err := place.set(w, r)
		if err == nil {
			aim(r, &queued)
			err = place.next.ServeHTTP(w, r)
		}
		return answerOf(w, err)
	}, r)
}

// aim sets path and query of a request.
func aim(r *http.Request, u *url.URL) { r.URL, r.RequestURI = u, u.RequestURI() }

// originalOf returns path and query as the client sent them; those of the request when it was queued if they
// are not known.
func originalOf(record *queue.Record, queued *url.URL) *url.URL {
	if u, err := queue.ParseURI(record.Original); err == nil {
		return u
	}
	u := *queued
	return &u
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

// locate returns the handler for a record: that of its domain, directive and server to whose route its request
// comes, as the client sent it or as it was when it was queued; else the only one for its host, path and method.
func (s *Sites) locate(ctx context.Context, record *queue.Record, r *http.Request) (Site, *place) {
	var known []Site
	var places []*place
	for _, site := range s.of(record) {
		if p := find(site.Server.Routes, site.Handler, nothing); p != nil {
			known, places = append(known, site), append(places, p)
		}
	}
	request := func(i int, u *url.URL) *http.Request {
		one := r.Clone(ctx)
		aim(one, u)
		return prepare(new(blank), one, known[i].Server, record)
	}
	only := -1
	for i, p := range places {
		original, queued := request(i, originalOf(record, r.URL)), request(i, r.URL)
		if p.comes(original, queued) {
			return known[i], p
		}
		if p.fits(original, queued) {
			if only >= 0 {
				only = len(places)
			} else {
				only = i
			}
		}
	}
	if only >= 0 && only < len(places) {
		return known[only], places[only]
	}
	return Site{}, nil
}

// of returns the handlers that queue such records: those of the server that queued it, if it has some.
func (s *Sites) of(record *queue.Record) []Site {
	s.mu.Lock()
	sites := slices.Clone(s.sites)
	s.mu.Unlock()
	sites = slices.DeleteFunc(sites, func(one Site) bool { return one.Domain != record.Domain || one.Name != record.Route })
	other := func(one Site) bool { return one.Listen() != record.Server }
	if record.Server == "" || !slices.ContainsFunc(sites, func(one Site) bool { return !other(one) }) {
		return sites
	}
	return slices.DeleteFunc(sites, other)
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
