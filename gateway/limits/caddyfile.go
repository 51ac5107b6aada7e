package limits

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"stint/gateway/service"
	"stint/internal/strictyaml"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("stint_early", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		e := new(Early)
		return e, e.Options.parse(h.Dispenser)
	})
	httpcaddyfile.RegisterHandlerDirective("stint", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		l := new(Late)
		return l, l.Options.parse(h.Dispenser)
	})
	httpcaddyfile.RegisterDirectiveOrder("stint_early", httpcaddyfile.Before, "basicauth") // the old name of basic_auth, the first that authenticates
	httpcaddyfile.RegisterDirectiveOrder("stint", httpcaddyfile.Before, "request_header")  // the first behind forward_auth
}

// parse reads a directive:
//
//	stint DOMAIN {
//	    headers ietf legacy
//	    reset unix_s
//	    over_header NAME
//	    degraded_header NAME
//	    policy_header NAME
//	    status 429
//	    code rate_limited
//	    message "Wait {wait}."
//	}
func (o *Options) parse(d *caddyfile.Dispenser) error {
	d.Next()
	o.Place = service.Place(d)
	name := d.Val()
	if !d.AllArgs(&o.Domain) {
		return service.Fault(o.Place, name+" takes one argument, the domain of its rules", "write "+name+" DOMAIN")
	}
	words := map[string]*string{
		"reset": &o.Reset, "over_header": &o.OverHeader, "degraded_header": &o.DegradedHeader,
		"policy_header": &o.PolicyHeader, "code": &o.Code, "message": &o.Message,
	}
	for d.NextBlock(0) {
		word, place := d.Val(), service.Place(d)
		text := words[word]
		switch {
		case text != nil:
			if !d.AllArgs(text) {
				return service.Fault(place, word+" takes one argument", "put a value with blanks into quotes")
			}
		case word == "headers":
			if o.Headers = d.RemainingArgs(); len(o.Headers) == 0 {
				return service.Fault(place, "headers has no value", "write headers ietf legacy, or headers none")
			}
		case word == "status":
			var err error
			if !d.NextArg() {
				return service.Fault(place, "status has no value", "write status 429")
			}
			if o.Status, err = strconv.Atoi(d.Val()); err != nil {
				return service.Fault(place, fmt.Sprintf("status: %q is not a number", d.Val()), "write status 429")
			}
		default:
			return unknown(place, word)
		}
	}
	return nil
}

// unknown returns the error about an unknown word in a directive's block.
func unknown(place, word string) error {
	known := []string{"headers", "reset", "over_header", "degraded_header", "policy_header", "status", "code", "message"}
	hint := "known are " + strings.Join(known, ", ")
	if near := strictyaml.Nearest(word, known); near != "" {
		hint = "is " + near + " meant?"
	}
	return service.Fault(place, fmt.Sprintf("unknown word %q", word), hint)
}
