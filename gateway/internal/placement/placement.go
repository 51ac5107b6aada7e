// Package placement checks where handlers stand in the routes of a server. A handler is provisioned before
// those behind it, so it cannot see its surroundings itself.
package placement

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() { caddy.RegisterModule(new(check)) }

// Checker is a handler that may stand only at some places.
type Checker interface {
	// CheckPlace returns an error if the handler must not stand at a place.
	CheckPlace(p Place) error
}

// Place is where a handler stands.
type Place struct {
	// Routes are the routes around the handler, from the outermost to its own.
	Routes []*caddyhttp.Route

	// Before are the handlers that every request passes on its way to this one.
	Before []caddyhttp.MiddlewareHandler
}

// name is the name of the module, and of the named route that runs it.
const name = "stint_placement"

// Check lets all handlers of a server that are Checkers check their places. Handlers call it when they are
// provisioned; a second call does nothing.
func Check(server *caddyhttp.Server) {
	if server == nil || server.NamedRoutes[name] != nil {
		return
	}
	if server.NamedRoutes == nil {
		server.NamedRoutes = map[string]*caddyhttp.Route{}
	}
	raw, _ := json.Marshal(map[string]string{"handler": name}) // never fails
	server.NamedRoutes[name] = &caddyhttp.Route{HandlersRaw: []json.RawMessage{raw}}
}

// check is the only handler of a named route that nobody invokes. Caddy provisions named routes after all
// others of a server.
type check struct{}

var (
	_ caddy.Provisioner           = (*check)(nil)
	_ caddyhttp.MiddlewareHandler = (*check)(nil)
)

// CaddyModule returns the module's name and constructor.
func (*check) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers." + name, New: func() caddy.Module { return new(check) }}
}

// ServeHTTP passes a request on.
func (*check) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// Provision checks the places of all handlers.
func (*check) Provision(ctx caddy.Context) error {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return nil
	}
	if err := new(walk).routes(server.Routes, nil); err != nil || server.Errors == nil {
		return err
	}
	return new(walk).routes(server.Errors.Routes, forErrors(nil))
}

// hop is one step on the way to a handler: a route of a list, and a handler in it.
type hop struct {
	route   *caddyhttp.Route
	handler int
}

// walk visits the handlers of routes in the order in which a request passes them.
type walk struct {
	passed []passed
}

// passed is a handler that was visited, and the way to it.
type passed struct {
	handler caddyhttp.MiddlewareHandler
	way     []hop
}

func (w *walk) routes(list caddyhttp.RouteList, outer []hop) error {
	for i := range list {
		for j, h := range list[i].Handlers {
			way := append(slices.Clip(outer), hop{&list[i], j})
			if err := w.visit(h, way); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walk) visit(h caddyhttp.MiddlewareHandler, way []hop) error {
	if sub, ok := h.(*caddyhttp.Subroute); ok {
		err := w.routes(sub.Routes, way)
		if err != nil || sub.Errors == nil {
			return err
		}
		return new(walk).routes(sub.Errors.Routes, forErrors(way))
	}
	if c, ok := h.(Checker); ok {
		var p Place
		for _, one := range way {
			p.Routes = append(p.Routes, one.route)
		}
		for _, one := range w.passed {
			if always(one.way, way) {
				p.Before = append(p.Before, one.handler)
			}
		}
		if err := c.CheckPlace(p); err != nil {
			return err
		}
	}
	w.passed = append(w.passed, passed{h, way})
	return nil
}

// forErrors returns the way to error routes: few requests come to them, as to a route with a matcher.
func forErrors(way []hop) []hop {
	return append(slices.Clip(way), hop{route: new(caddyhttp.Route)})
}

// always reports whether every request that comes to the end of to has passed the end of from, which was
// visited before it.
func always(from, to []hop) bool {
	n := 0
	for from[n] == to[n] {
		n++
	}
	a, b := from[n].route, to[n].route
	if a != b && (a.Terminal || a.Group != "" && a.Group == b.Group || len(a.MatcherSets) > 0 && !reflect.DeepEqual(a.MatcherSets, b.MatcherSets)) {
		return false
	}
	return !slices.ContainsFunc(from[n+1:], func(h hop) bool { return len(h.route.MatcherSets) > 0 })
}
