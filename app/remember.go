package app

import (
	"stint/chain/denycache"
	"stint/telemetry"
)

// remember returns a store that caches the denials of a server, and exchanges notices with other
// processes.
func (a *App) remember(s *server) *denycache.Store {
	return denycache.New(s.guarded, denycache.Options{
		Notices: s.shared, Divided: s.shared.Divided(), MaxAge: a.config.RememberRefusalsFor,
		OnChange: func(up bool, reason error) { a.noticesChanged(s, up, reason) },
	})
}

// noticesChanged logs whether the notices of other processes arrive.
func (a *App) noticesChanged(s *server, up bool, reason error) {
	if up {
		a.log.Info("refusals are remembered", "store", s.name)
		return
	}
	a.log.Warn("refusals are not remembered, because no notices of other nodes arrive; every take goes to the store",
		"store", s.name, "error", reason, "hint", redisHint(reason))
}

// forget drops the denials under the old rules.
func (s *stores) forget() {
	for _, one := range s.servers {
		if one.denials != nil {
			one.denials.Forget()
		}
	}
}

// refusalStats returns the numbers of cached denials of all servers together, for metrics.
func (s *stores) refusalStats() telemetry.RefusalStats {
	sum := telemetry.RefusalStats{Heard: true}
	for _, one := range s.servers {
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
