package httpapi

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"stint/internal/jsonbody"
	"stint/internal/text"
)

// authQuery are the query parameters of a call, with defaults from the settings.
type authQuery struct {
	domain string
	deny   int
	worst  int // replaces the status of a refusal of 500 and above; 0 keeps it
	wait   time.Duration

	reserve bool // the proxy settles
}

// parse reads the query of a call. Its faults are mistakes in the configuration of the proxy.
func (a *auth) parse(raw string) (authQuery, *jsonbody.Fault) {
	q := authQuery{domain: a.options.Domain, deny: a.options.Deny, wait: a.options.Wait}
	said := map[string]bool{}
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		name, written, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(written)
		if err != nil {
			return q, jsonbody.Bad("", text.Quote(written)+" is not escaped as a query has to be", "write %25 for a percent sign").In(name)
		}
		if said[name] {
			return q, jsonbody.Bad("", "a parameter occurs twice", "write "+name+" at most once").In(name)
		}
		said[name] = name != ""
		switch name {
		case "":
		case "domain":
			q.domain = value
		case "deny", "deny-5xx":
			status := &q.deny
			if name != "deny" {
				status = &q.worst
			}
			if *status, err = strconv.Atoi(value); err != nil || *status < LeastDeny || *status > MostDeny {
				return q, jsonbody.Bad("", text.Quote(value)+" is not a valid status for refusals", "write 400 to 499, such as 403").In(name)
			}
		case "wait":
			if q.wait, err = time.ParseDuration(value); err != nil || q.wait < 0 || q.wait > MostWait {
				return q, jsonbody.Bad("", text.Quote(value)+" is not a valid time", "write one such as 80ms, at most "+MostWait.String()).In(name)
			}
		case "reserve":
			if q.reserve = value == "true"; !q.reserve && value != "false" {
				return q, jsonbody.Bad("", text.Quote(value)+" is neither true nor false", "write reserve=true, or leave it out").In(name)
			}
		default:
			return q, jsonbody.Bad("", "unknown parameter "+text.Quote(name), "use domain, deny, deny-5xx, wait and reserve")
		}
	}
	if q.domain == "" {
		return q, jsonbody.Bad("", "missing; no domain is configured", "ask for "+AuthPath+"?domain=NAME, or set --auth-domain").In("domain")
	}
	return q, nil
}
