package lists

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/gateway/service"
)

// The lists come before redirects, rewrites, limits and authentication, whatever order the packages
// of this module are initialized in.
func init() {
	register("stint_only", func(d *caddyfile.Dispenser) (caddyhttp.MiddlewareHandler, error) {
		o := new(Only)
		return o, o.UnmarshalCaddyfile(d)
	})
	register("stint_deny", func(d *caddyfile.Dispenser) (caddyhttp.MiddlewareHandler, error) {
		l := new(Deny)
		return l, l.UnmarshalCaddyfile(d)
	})
}

// register registers a directive whose arguments are files. An argument that begins with / is a file,
// so the matcher is * or a named one, never a path.
func register(name string, parse func(*caddyfile.Dispenser) (caddyhttp.MiddlewareHandler, error)) {
	httpcaddyfile.RegisterDirective(name, func(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
		h.Next()
		named := h.NextArg() && (h.Val() == "*" || strings.HasPrefix(h.Val(), "@"))
		h.Reset()
		var matcher caddy.ModuleMap
		if named {
			h.Next()
			var err error
			if matcher, err = h.ExtractMatcherSet(); err != nil {
				return nil, err
			}
		}
		handler, err := parse(h.Dispenser)
		if err != nil {
			return nil, err
		}
		return h.NewRoute(matcher, handler), nil
	})
	httpcaddyfile.RegisterDirectiveOrder(name, httpcaddyfile.Before, "redir")
}

var (
	_ caddyfile.Unmarshaler = (*Only)(nil)
	_ caddyfile.Unmarshaler = (*Deny)(nil)
)

// UnmarshalCaddyfile reads the names of files:
//
//	stint_only [MATCHER] FILE...
//	stint_deny [MATCHER] FILE...
func (h *handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	directive := d.Val()
	h.Place = service.Place(d)
	h.Files = append(h.Files, d.RemainingArgs()...)
	if len(h.Files) == 0 {
		return service.Fault(service.Place(d), directive+" without a file", "name files with one network a line, such as "+directive+" allow.txt")
	}
	if d.NextBlock(0) {
		return service.Fault(service.Place(d), fmt.Sprintf("%s has no option %s", directive, d.Val()), "write networks into a file and name it on the line of "+directive)
	}
	return nil
}
