package lists

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"stint"
	"stint/gateway/internal/client"
	"stint/gateway/service"
	"stint/internal/web"
	"stint/limiter"
	"stint/limiter/response"
)

func init() {
	caddy.RegisterModule(Only{})
	caddy.RegisterModule(Deny{})
}

// Only serves the clients that are in a list, and answers all others with 403. A client whose
// address is unknown is in no list. It is the directive stint_only.
type Only struct{ handler }

// Deny answers the clients that are in a list with 403. It is the directive stint_deny.
type Deny struct{ handler }

var (
	_ caddyhttp.MiddlewareHandler = (*Only)(nil)
	_ caddyhttp.MiddlewareHandler = (*Deny)(nil)
	_ caddy.Provisioner           = (*Only)(nil)
	_ caddy.Provisioner           = (*Deny)(nil)
)

// CaddyModule returns the description of the module.
func (Only) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.stint_only", New: func() caddy.Module { return new(Only) }}
}

// CaddyModule returns the description of the module.
func (Deny) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.stint_deny", New: func() caddy.Module { return new(Deny) }}
}

// Provision reads the lists.
func (o *Only) Provision(ctx caddy.Context) error { return o.provision(ctx, o, true) }

// Provision reads the lists.
func (d *Deny) Provision(ctx caddy.Context) error { return d.provision(ctx, d, false) }

// ServeHTTP passes a request on if its client is in a list.
func (o *Only) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if err := client.Verify(r); err != nil {
		return err
	}
	if o.find(r) == nil {
		return o.refuse(w, r, "stint_only")
	}
	return next.ServeHTTP(w, r)
}

// ServeHTTP passes a request on if its client is in no list.
func (d *Deny) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if err := client.Verify(r); err != nil {
		return err
	}
	if in := d.find(r); in != nil {
		return d.refuse(w, r, in.path)
	}
	return next.ServeHTTP(w, r)
}

// handler is what stint_only and stint_deny share.
type handler struct {
	// Files are the files of the list, with one network such as 192.0.2.0/24 or one address a line.
	// Lines that begin with # are comments. Several files are one list.
	Files []string `json:"files"`

	// Place is the place of the directive in the configuration file, for errors.
	Place string `json:"place,omitempty"`

	lists   []*list
	clients *client.Finder
	refuser *response.Refuser
}

// provision reads the files of self, which has h. If full is set, each must have an element.
func (h *handler) provision(ctx caddy.Context, self caddy.Module, full bool) error {
	h.Place = service.PlaceOf(h.Place, self)
	if len(h.Files) == 0 {
		return service.Fault(h.Place, "no file of networks", "name at least one, such as allow.txt")
	}
	loaded, err := ctx.App(appName)
	if err != nil {
		return err
	}
	app := loaded.(*App) //nolint:forcetypeassert // registered under this name in this package
	for _, file := range h.Files {
		l, err := app.use(file, full)
		if err != nil {
			return explain(h.Place, err)
		}
		h.lists = append(h.lists, l)
	}
	h.refuser = response.NewRefuser(response.RefusalText{})
	options := client.Options{Place: h.Place, Log: ctx.Slogger()}
	options.Server, _ = ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if _, err := ctx.AppIfConfigured(service.Name); !errors.Is(err, caddy.ErrNotConfigured) {
		running, err := service.Running(ctx)
		if err != nil {
			return err
		}
		options.Proxies = running.Config().Proxies()
	}
	h.clients, err = client.New(options)
	return err
}

// find returns the list that has the client of a request; nil for none.
func (h *handler) find(r *http.Request) *list {
	addr, _ := h.clients.Find(r)
	for _, l := range h.lists {
		if l.holds(addr) {
			return l
		}
	}
	return nil
}

// refuse answers a request with 403, as Stint's deny lists do, and adds the name of what refused it to
// the access log.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, by string) error {
	if extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Add(zap.String("stint_list", by))
	}
	denied := h.lists[0].current.Load().networks
	verdict := limiter.Verdict{Listed: denied}
	verdict.RetryAfter = stint.Never
	var refusal response.Refusal
	var fields web.Fields
	h.refuser.Listed(&refusal, r.Header["Accept"], &verdict, &fields)
	header := w.Header()
	fields.Put(header)
	header.Set("Content-Type", refusal.Media)
	header.Set("Content-Length", strconv.Itoa(len(refusal.Body)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(refusal.Status)
	if r.Method == http.MethodHead {
		return nil
	}
	_, _ = w.Write(refusal.Body) // an error means that the client has disconnected
	return nil
}
