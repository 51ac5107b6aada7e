package stores

import (
	"context"
	"time"

	"stint"
	"stint/chain/servers"
	"stint/rule"
	"stint/server/httpapi/limitjson"
	"stint/telemetry"
)

// announceTimeout bounds how long servers may take to accept the use of local shares that end.
const announceTimeout = time.Second

// Announce passes the rules that will be used to all stores before a server: leases under
// other rules are returned, and the use of local shares that end is debited. Until done is called
// takes with local shares wait, so that no take is decided under both rules.
func (st *Stores) Announce(table *rule.Table) (done func()) {
	terms := table.Terms()
	ctx, cancel := context.WithTimeout(context.Background(), announceTimeout)
	defer cancel()
	ends := make([]func(), 0, 3*len(st.servers)+1)
	for _, s := range st.servers {
		ends = append(ends, s.shares.Pause(), s.eventual.Change(ctx, terms), s.leases.Change(ctx, terms))
		if err := s.shares.Change(ctx, terms); err != nil {
			st.log.Warn("could not debit the store for a local share that changed; this usage may be admitted once more", "store", s.name, "error", err)
		}
	}
	end, err := st.gossip.Change(ctx, terms)
	if err != nil {
		st.log.Warn("could not debit the store for a rule that is no longer gossip; this usage may be admitted once more", "error", err)
	}
	ends = append(ends, end)
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// Lends reports whether the servers lend units to nodes.
func (st *Stores) Lends() bool { return len(st.servers) > 0 && st.servers[0].redis != nil }

// Leases returns the store of a take's key, and what this process has of the key.
func (st *Stores) Leases(t *stint.Take) (limitjson.LeaseStore, limitjson.LocalLease) {
	s := st.server(t)
	here := limitjson.LocalLease{Node: s.leases.Node(), Units: s.leases.Held(t), Losses: s.lossesOf(t)}
	if part, divided := s.shares.Share(t); divided {
		here.Share, here.ShareRemaining = part.Limit, part.Remaining
	}
	return s.redis, here
}

// server returns the server that has a take's key.
func (st *Stores) server(t *stint.Take) *server {
	names := make([]string, len(st.servers))
	for i, one := range st.servers {
		names[i] = one.name
	}
	return st.servers[servers.Pick(names, t.Place())]
}

// leaseRules returns the numbers of each leased rule on each server, for metrics.
func (st *Stores) leaseRules() (all []telemetry.LeaseRule) {
	for _, one := range st.servers {
		for _, r := range one.leases.Rules() {
			all = append(all, telemetry.LeaseRule{
				Domain: r.Domain, Rule: r.Rule, Held: r.Held, Idle: r.Idle, Asks: r.Asks, Reported: r.Reported, Lent: r.Lent, Returned: r.Returned,
			})
		}
		one.shares.Passed(func(domain, rule string, passed uint64) {
			all = append(all, telemetry.LeaseRule{Domain: domain, Rule: rule, Own: passed})
		})
	}
	return all
}
