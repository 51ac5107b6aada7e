package limits

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Handlers of Caddy return errors upward, and error routes (handle_errors) may answer them with any
// status. Limits that count responses wait until that is known: the first error route is the handler
// Status, which settles them.

// pendingVar is the variable of a request with the limits that wait for its status.
const pendingVar = "stint.pending"

// pending are functions that settle limits.
type pending struct{ settle []func(status int) }

// failed makes limits wait for the answer of the error routes, or settles them if there are none.
func failed(r *http.Request, err error, settle func(status int)) {
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if server == nil || server.Errors == nil || len(server.Errors.Routes) == 0 {
		settle(statusOf(err))
		return
	}
	p, _ := caddyhttp.GetVar(r.Context(), pendingVar).(*pending)
	if p == nil {
		p = new(pending)
		caddyhttp.SetVar(r.Context(), pendingVar, p)
	}
	p.settle = append(p.settle, settle)
}

// statusOf returns the status with which Caddy answers an error without error routes.
func statusOf(err error) int {
	if failure, ok := errors.AsType[caddyhttp.HandlerError](err); ok && failure.StatusCode != 0 {
		return failure.StatusCode
	}
	return http.StatusInternalServerError
}

// statusName is the name of the module Status.
const statusName = "stint_status"

// Status is the first handler of the error routes of a server. It is added to servers with stint by
// itself.
type Status struct{}

// CaddyModule returns the module's name and constructor.
func (*Status) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers." + statusName, New: func() caddy.Module { return new(Status) }}
}

var _ caddyhttp.MiddlewareHandler = (*Status)(nil)

// watchErrors adds the handler Status to the error routes of a server, once.
func watchErrors(server *caddyhttp.Server) {
	if server == nil || server.Errors == nil || len(server.Errors.Routes) == 0 {
		return
	}
	raw, _ := json.Marshal(map[string]string{"handler": statusName}) // never fails
	first := server.Errors.Routes[0].HandlersRaw
	if len(first) > 0 && bytes.Equal(first[0], raw) {
		return
	}
	server.Errors.Routes = slices.Insert(server.Errors.Routes, 0, caddyhttp.Route{HandlersRaw: []json.RawMessage{raw}})
}

// ServeHTTP settles limits with the status that the error routes send.
func (*Status) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	p, _ := caddyhttp.GetVar(r.Context(), pendingVar).(*pending)
	if p == nil {
		return next.ServeHTTP(w, r)
	}
	status := http.StatusInternalServerError // if a handler panics
	defer func() { p.end(status) }()
	err := next.ServeHTTP(&settling{&caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, p}, r)
	if status = http.StatusOK; err != nil {
		// Caddy sends the status of the first error.
		first, _ := r.Context().Value(caddyhttp.ErrorCtxKey).(error)
		status = statusOf(first)
	}
	return err
}

// end settles all limits, once.
func (p *pending) end(status int) {
	for _, settle := range p.settle {
		settle(status)
	}
	p.settle = nil
}

// settling is a ResponseWriter that settles limits before the header is sent.
type settling struct {
	*caddyhttp.ResponseWriterWrapper
	pending *pending
}

// WriteHeader settles with the status, unless it is informational.
func (s *settling) WriteHeader(status int) {
	if status >= http.StatusOK {
		s.pending.end(status)
	}
	s.ResponseWriterWrapper.WriteHeader(status)
}

// Write settles with 200 if there is no status yet.
func (s *settling) Write(b []byte) (int, error) {
	s.pending.end(http.StatusOK)
	return s.ResponseWriterWrapper.Write(b)
}
