package stores

import (
	"stint"
	"stint/chain/guard"
	"stint/chain/router"
	"stint/fleet/eventual"
	"stint/fleet/lease"
	"stint/fleet/quota"
)

// This file builds the chain: the stint.Stores between the limiter and the counts, each around the
// next one. docs/architecture.md shows which takes pass through which.

// openServer opens the server at a URL, and builds the stores before it.
func (st *Stores) openServer(s *server, url string) (err error) {
	c := st.config
	if s.network, err = openNetwork(url, c); err != nil {
		return err
	}
	asked, kind := s.store()
	if st.options.Traced != nil {
		asked = st.options.Traced(asked, kind, s.name)
	}
	s.guarded = guard.New(asked, guard.Options{
		Timeout: c.StoreTimeout, Local: st.memory, Server: s.serverOf, OnChange: func(now guard.Status) { st.serverChanged(s, now) },
	})
	s.eventual = eventual.New(s.guarded, eventual.Options{Interval: c.SyncInterval, Budget: c.Memory, Part: s.part})
	if c.RememberRefusals && s.redis != nil { // memcached carries no notices
		s.denials = st.remember(s)
	}
	s.leases = lease.New(s.strict(), lease.Options{Part: s.part})
	s.shares = quota.New(s.leases, quota.Options{})
	return nil
}

// strict returns the store for strict takes of the server.
func (s *server) strict() stint.Store {
	if s.denials != nil {
		return s.denials
	}
	return s.guarded
}

// routes returns the stores of a server's router.
func (s *server) routes() router.Stores {
	return router.Stores{Strict: s.strict(), Asks: s.shares, Eventual: s.eventual}
}

// routes returns the stores of the process's router, without gossip.
func (st *Stores) routes() router.Stores {
	switch {
	case st.placed != nil:
		return router.Stores{Asks: st.placed}
	case len(st.servers) > 0:
		return st.servers[0].routes()
	case st.durable != nil:
		return router.Stores{Asks: st.durable}
	}
	return router.Stores{Asks: st.memory}
}

// shared returns the chain without gossip.
func (st *Stores) shared() stint.Store { return router.New(st.routes()) }
