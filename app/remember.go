package app

import (
	"stint"
	"stint/store/redis"
	"stint/store/refusals"
	"stint/telemetry"
)

// remember returns a store that remembers what another one refuses; shared, on which that
// stands, carries the notices of other processes.
func (a *App) remember(inner stint.Store, shared *redis.Store) *refusals.Store {
	return refusals.New(inner, refusals.Options{Notices: shared, Divided: shared.Divided(), OnChange: a.noticesChanged})
}

// noticesChanged logs that other processes can be heard, or not.
func (a *App) noticesChanged(up bool, reason error) {
	if up {
		a.log.Info("refusals are remembered", "store", a.config.storeName())
		return
	}
	a.log.Warn("refusals are not remembered, as no notices of other nodes arrive; each take asks the store",
		"store", a.config.storeName(), "problem", reason, "hint", redisHint(reason))
}

// refusalStats are the numbers of remembered refusals, as metrics show them.
func (s *stores) refusalStats() telemetry.RefusalStats {
	n := s.recall.Stats()
	return telemetry.RefusalStats{Answered: n.Answered, Keys: n.Keys, Bytes: n.Bytes, Dropped: n.Dropped, Lost: n.Lost, Heard: n.Up}
}
