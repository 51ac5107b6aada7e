package limits

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/gateway/internal/client"
	"stint/gateway/internal/placement"
	"stint/gateway/queue"
	"stint/gateway/queue/route"
	"stint/gateway/service"
	"stint/httplimit"
	"stint/internal/logging"
	"stint/internal/strictyaml"
	"stint/rule"
	"stint/telemetry/otlp"
)

func init() {
	caddy.RegisterModule(new(Late))
	caddy.RegisterModule(new(Early))
	caddy.RegisterModule(new(Status))
}

// Options are what both directives have.
type Options struct {
	// Domain is the domain of the rules.
	Domain string `json:"domain"`

	// Headers are the presets of limits without presets of their own: ietf, legacy, draft03 or none.
	// By default they are ietf and legacy.
	Headers []string `json:"headers,omitempty"`

	// Reset is the format of X-RateLimit-Reset: unix_s (the default), unix_ms or delta.
	Reset string `json:"reset,omitempty"`

	// OverHeader, DegradedHeader and PolicyHeader are names of headers, see httplimit.Options. By
	// default DegradedHeader is that of the app, and the others are not sent.
	OverHeader     string `json:"over_header,omitempty"`
	DegradedHeader string `json:"degraded_header,omitempty"`
	PolicyHeader   string `json:"policy_header,omitempty"`

	// Status, Code and Message are those of a denial by a limit without a denial of its own: 429,
	// rate_limited and a sentence by default.
	Status  int    `json:"status,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`

	// Place is the place of the directive in the configuration file, for errors.
	Place string `json:"place,omitempty"`
}

// Handler limits requests in one phase. It is safe for concurrent use.
type Handler struct {
	Options

	app          *service.App
	options      httplimit.Options
	opening      sync.Once
	gate         *httplimit.Gate // nil: there is no service
	err          error
	site         route.Site
	log          *slog.Logger
	client       *client.Finder
	outcomes     outcomes
	queue        *queue.Queue // nil: there is none
	statusesHere bool         // this handler serves the status resources of the queue
}

// Late is the handler of the directive stint.
type Late struct{ Handler }

// Early is the handler of the directive stint_early.
type Early struct{ Handler }

// CaddyModule returns the module's name and constructor.
func (*Late) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.stint", New: func() caddy.Module { return new(Late) }}
}

// CaddyModule returns the module's name and constructor.
func (*Early) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.stint_early", New: func() caddy.Module { return new(Early) }}
}

var (
	_ caddy.Provisioner           = (*Late)(nil)
	_ caddyhttp.MiddlewareHandler = (*Late)(nil)
	_ placement.Checker           = (*Late)(nil)
	_ caddy.Provisioner           = (*Early)(nil)
	_ caddyhttp.MiddlewareHandler = (*Early)(nil)
	_ placement.Checker           = (*Early)(nil)
)

// Provision checks the options against the rules.
func (h *Late) Provision(ctx caddy.Context) error { return h.provision(ctx, h, rule.AnyPhase) }

// Provision checks the options against the rules.
func (h *Early) Provision(ctx caddy.Context) error { return h.provision(ctx, h, httplimit.Early) }

// ServeHTTP passes a request to next if its limits allow it, and answers it otherwise.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	h.opening.Do(h.open)
	if h.err != nil {
		return caddyhttp.Error(http.StatusServiceUnavailable, h.err)
	}
	if err := client.Verify(r); err != nil {
		return err
	}
	if h.statusesHere && queue.IsStatus(r.URL.Path) {
		h.serveStatus(w, r)
		return nil
	}
	if h.decided(r) {
		return next.ServeHTTP(w, r)
	}
	return h.gate.Serve(w, r, next)
}

// open makes the gate at the first request, since the service may start after the server.
func (h *Handler) open() {
	running, err := h.app.Service()
	if err != nil {
		h.err = err
		return
	}
	h.options.APIKeys = running.Identify()
	if h.err = h.openQueue(); h.err != nil {
		return
	}
	h.options.Several = slices.ContainsFunc(h.app.Sites(), func(other route.Site) bool {
		return other.Server == h.site.Server && other.Domain != h.Domain
	})
	h.gate = httplimit.NewGate(running.Limiter(), h.Domain, h.options)
}

// module is a handler as Caddy's configuration has it.
type module interface {
	caddy.Module
	caddyhttp.MiddlewareHandler
}

// provision checks the options. self is the handler that has h.
func (h *Handler) provision(ctx caddy.Context, self module, phase rule.Phase) (err error) {
	if h.app, err = service.Running(ctx); err != nil {
		return err
	}
	h.Place = service.PlaceOf(h.Place, self)
	if err := h.checkDomain(); err != nil {
		return err
	}
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	clients, err := client.New(client.Options{Proxies: h.app.Config().Proxies(), Server: server, Place: h.Place, Log: ctx.Slogger()})
	if err != nil {
		return err
	}
	h.log = ctx.Slogger()
	h.addSite(server, self, clients, phase)
	placement.Check(server)
	failures := &logging.FailureLog{Log: ctx.Slogger(), Event: "no decision", Hint: "see the store and the limit's on_store_failure"}
	h.outcomes = outcomes{logged: server != nil && server.Logs != nil}
	h.options = httplimit.Options{
		Phase: phase, Identity: identity, Client: h.clientOf, Failed: failed,
		OverHeader: h.OverHeader, DegradedHeader: h.DegradedHeader, PolicyHeader: h.PolicyHeader,
		Status: h.Status, Code: h.Code, Message: h.Message,
		Observe: h.outcomes.observe, Earlier: h.outcomes.earlier,
		OnError: func(_ *http.Request, err error) { failures.Report(err) },
	}
	if h.DegradedHeader == "" {
		h.options.DegradedHeader = h.app.Config().DegradedHeader
	}
	if h.app.Config().OTLP.Endpoint != "" {
		h.options.Context = otlp.Header
	}
	if err := h.readHeaders(); err != nil {
		return err
	}
	watchErrors(server)
	return nil
}

// clientOf returns the address of the client of a request. Two directives of a route find it once.
func (h *Handler) clientOf(r *http.Request) (addr netip.Addr, forwarded bool) {
	if o := h.outcomes.of(r); o != nil {
		return h.client.FindOnce(r, &o.client)
	}
	return h.client.Find(r)
}

// checkDomain checks that the rules say how to limit HTTP requests of the domain.
func (h *Handler) checkDomain() error {
	table := h.app.Table()
	domain := table.Domain(h.Domain)
	if config := h.app.Config(); len(config.Catalog) > 0 || config.CatalogDB != "" || config.Records != "" {
		return nil // rules per API may have it
	}
	if domain == nil {
		var known []string
		for _, d := range table.Domains() {
			known = append(known, d.Name())
		}
		hint := "the rules have " + strings.Join(known, ", ")
		if near := strictyaml.Nearest(h.Domain, known); near != "" {
			hint = "is " + near + " meant?"
		}
		return h.fault(fmt.Sprintf("no rules for domain %q", h.Domain), hint)
	}
	if !domain.HasHTTP() {
		return h.fault(fmt.Sprintf("domain %q does not say how an HTTP request becomes descriptors", h.Domain),
			"give "+domain.File()+" an http section, such as http: {rate_limits: [{actions: [{remote_address: {}}]}]}")
	}
	return nil
}

// readHeaders sets the options that are words.
func (h *Handler) readHeaders() error {
	for _, name := range h.Headers {
		preset, ok := rule.ParsePreset(name)
		if !ok {
			return h.fault(fmt.Sprintf("headers: unknown word %q", name), "use "+strings.Join(rule.PresetNames(), ", "))
		}
		h.options.Headers = append(h.options.Headers, preset)
	}
	switch h.Reset {
	case "", "unix_s":
	case "unix_ms":
		h.options.Reset = httplimit.UnixMillis
	case "delta":
		h.options.Reset = httplimit.Delta
	default:
		return h.fault(fmt.Sprintf("reset: unknown word %q", h.Reset), "use unix_s, unix_ms or delta")
	}
	if h.Status != 0 && (h.Status < 400 || h.Status > 599) {
		return h.fault("status: "+strconv.Itoa(h.Status)+" is no denial", "use 400 to 599, such as 429")
	}
	return nil
}

func (h *Handler) fault(problem, hint string) error {
	return service.Fault(h.Place, problem, hint)
}

// identity returns the name that authentication proved.
func identity(r *http.Request) string {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	name, _ := replacer.GetString("http.auth.user.id")
	return name
}
