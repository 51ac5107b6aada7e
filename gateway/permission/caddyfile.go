package permission

import (
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
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
	if d.NextArg() {
		return d.Errf("permission stint has no argument %s; hint: write suffixes %s in its block", d.Val(), d.Val())
	}
	for d.NextBlock(0) {
		word, args := d.Val(), d.RemainingArgs()
		var err error
		switch word {
		case "suffixes":
			if p.Suffixes = append(p.Suffixes, args...); len(args) == 0 {
				err = d.Err("suffixes without a domain; hint: write suffixes example.com")
			}
		case "total":
			p.Total, err = rate(d, word, args)
		case "per_domain":
			p.PerDomain, err = rate(d, word, args)
		default:
			err = d.Errf("permission stint has no option %s; hint: it has suffixes, total, per_domain", word)
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
	return Rate{}, d.Errf("%s needs a number from 1 and a period from 1s; hint: write %s 100 1h", word, word)
}
