package permission

import (
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"stint/gateway/service"
)

var _ caddyfile.Unmarshaler = (*Permission)(nil)

// UnmarshalCaddyfile reads, in the global option on_demand_tls,
//
//	permission stint {
//		suffixes   DOMAIN...
//		total      NUMBER PERIOD
//		per_domain NUMBER PERIOD
//	}
func (p *Permission) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	p.Place = service.Place(d)
	if d.NextArg() {
		return service.Fault(service.Place(d), "permission stint has no argument "+d.Val(), "write suffixes "+d.Val()+" in its block")
	}
	for d.NextBlock(0) {
		word, args := d.Val(), d.RemainingArgs()
		var err error
		switch word {
		case "suffixes":
			if p.Suffixes = append(p.Suffixes, args...); len(args) == 0 {
				err = service.Fault(service.Place(d), "suffixes without a domain", "write suffixes example.com")
			}
		case "total":
			p.Total, err = rate(d, word, args)
		case "per_domain":
			p.PerDomain, err = rate(d, word, args)
		default:
			err = service.Fault(service.Place(d), "permission stint has no option "+word, "it has suffixes, total, per_domain")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rate reads a number and a period.
func rate(d *caddyfile.Dispenser, word string, args []string) (Rate, error) {
	if len(args) == 2 {
		number, numberErr := strconv.ParseUint(args[0], 10, 32)
		period, periodErr := caddy.ParseDuration(args[1])
		if numberErr == nil && periodErr == nil && number > 0 && period >= time.Second {
			return Rate{uint32(number), caddy.Duration(period)}, nil
		}
	}
	return Rate{}, service.Fault(service.Place(d), word+" needs a number from 1 and a period from 1s", "write "+word+" 100 1h")
}
