package service

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(new(Site))
	httpcaddyfile.RegisterHandlerDirective("stint_admin", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		s := new(Site)
		return s, s.UnmarshalCaddyfile(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("stint_admin", httpcaddyfile.Before, "respond")
}

// Site serves the admin interface of the service on a site, and with it the operators' page, which
// Caddy's own admin API refuses to browsers. It needs tokens, because others than this machine may reach
// a site.
type Site struct{ app *App }

var (
	_ caddy.Provisioner           = (*Site)(nil)
	_ caddyfile.Unmarshaler       = (*Site)(nil)
	_ caddyhttp.MiddlewareHandler = (*Site)(nil)
)

// CaddyModule returns the module's name and constructor.
func (*Site) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.stint_admin", New: func() caddy.Module { return new(Site) }}
}

// UnmarshalCaddyfile reads the directive, which has no arguments.
func (*Site) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() || d.NextBlock(0) {
		return d.Err("stint_admin has no arguments; hint: serve a folder by handle_path /FOLDER/* { stint_admin }")
	}
	return nil
}

// Provision refuses a site without tokens.
func (s *Site) Provision(ctx caddy.Context) error {
	a, err := Running(ctx)
	if err != nil {
		return err
	}
	if c := a.Config(); c.AdminToken+c.AdminTokenFile+c.AdminAccess == "" {
		return errors.New("stint_admin without tokens: everybody who reaches the site could change everything; hint: write admin-access FILE or admin-token-file FILE in the global option stint")
	}
	s.app = a
	return nil
}

// ServeHTTP serves a request of an operator. The paths are those of the admin address of a service.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	handler, err := s.app.Admin()
	if err != nil {
		return caddyhttp.Error(http.StatusServiceUnavailable, err)
	}
	handler.ServeHTTP(w, r)
	return nil
}
