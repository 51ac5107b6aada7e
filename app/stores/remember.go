package stores

import (
	"stint/chain/denycache"
	"stint/telemetry"
)

// remember returns a store that caches the denials of a server, and exchanges notices with other
// processes.
func (st *Stores) remember(s *server) *denycache.Store {
	return denycache.New(s.guarded, denycache.Options{
		Notices: s.redis, Divided: s.redis.Divided(), MaxAge: st.config.RememberRefusalsFor,
		OnChange: func(up bool, reason error) { st.noticesChanged(s, up, reason) },
	})
}

// noticesChanged logs whether the notices of other processes arrive.
func (st *Stores) noticesChanged(s *server, up bool, reason error) {
	if up {
		st.log.Info("refusals are remembered", "store", s.name)
		return
	}
	st.log.Warn("refusals are not remembered, because no notices of other nodes arrive; every take goes to the store",
		"store", s.name, "error", reason, "hint", Hint(reason))
}

// Forget drops the denials under the old rules.
func (st *Stores) Forget() {
	for _, one := range st.servers {
		if one.denials != nil {
			one.denials.Forget()
		}
	}
}

// refusalStats returns the numbers of cached denials of all servers together, for metrics.
func (st *Stores) refusalStats() telemetry.RefusalStats {
	sum := telemetry.RefusalStats{Heard: true}
	for _, one := range st.servers {
		n := one.denials.Stats()
		sum.Answered += n.Answered
		sum.Keys += n.Keys
		sum.Bytes += n.Bytes
		sum.Dropped += n.Dropped
		sum.Lost += n.Lost
		sum.Heard = sum.Heard && n.Up
	}
	return sum
}
