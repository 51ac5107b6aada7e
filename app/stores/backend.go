package stores

import (
	"cmp"
	"context"
	"errors"
	"time"

	"stint"
	"stint/chain/guard"
	"stint/fleet/lease"
	"stint/internal/logging"
	"stint/server/httpapi/limitjson"
	"stint/store/redis"
	"stint/telemetry"
)

// backend returns the name of a server of a store by its number.
func (s *server) backend(number int) logging.StoreServer {
	return logging.StoreServer{Number: number, Name: s.serverName(number)}
}

// serverFails stores what is wrong with a Redis server, and logs it once.
func (st *Stores) serverFails(s *server, of logging.StoreServer, err error) {
	switch first := s.backends.Fails(of, err.Error()); {
	case first && of.Name != "":
		st.log.Error("a server of the store cannot be used; limits whose keys it has follow their on_store_failure",
			"store", s.name, "server", of.Name, "error", err, "hint", Hint(err))
	case first:
		st.log.Error("the store cannot be used; each rule follows its on_store_failure",
			"store", s.name, "error", err, "hint", Hint(err))
	}
}

// isBack logs that a Redis server works again, or no longer holds keys.
func (st *Stores) isBack(s *server, of logging.StoreServer, holds bool) {
	switch {
	case of.Name == "":
		st.log.Info("the store is back", "store", s.name)
	case holds:
		st.log.Info("the server is back", "store", s.name, "server", of.Name)
	default:
		st.log.Info("the server no longer holds keys of the store", "store", s.name, "server", of.Name)
	}
}

// lookEach handles the checks of a store's Redis servers. It reports whether some work, whether it
// has logged that one is back, and returns the guard's status just before that.
func (st *Stores) lookEach(ctx context.Context, s *server, looked []redis.Server) (usable, back bool, status guard.Status) {
	present := make([]logging.StoreServer, len(looked))
	for i, one := range looked {
		present[i] = logging.StoreServer{Number: one.Number, Name: one.Name}
	}
	if present[0].Number != logging.AllServers {
		for _, gone := range s.backends.Present(present) {
			st.isBack(s, gone, false)
			back = true
		}
	}
	var well []logging.StoreServer
	for i, one := range looked {
		if one.Err != nil {
			st.serverFails(s, present[i], one.Err)
			continue
		}
		if one.Lost {
			st.countsLost(s, present[i])
		}
		if !s.try(ctx, present[i], one.Place) {
			well = append(well, present[i])
		}
	}
	status = s.guarded.Status() // the next check reports calls that fail from here on
	for _, of := range well {
		if s.backends.Well(of) {
			st.isBack(s, of, true)
			back = true
		}
	}
	return len(well) > 0, back, status
}

// try makes the guard try a Redis server if no call does. It reports whether the guard treats the
// server as away.
func (s *server) try(ctx context.Context, of logging.StoreServer, place stint.Key) (away bool) {
	status := s.guarded.Of(of.Number)
	if s.backends.Idle(of, status.Spared) && status.Away {
		call := stint.Call{Takes: []stint.Take{{Key: "look", Limit: lookLimit, Handling: &stint.Handling{Place: place}}}}
		_ = s.guarded.Decide(ctx, &call) // the guard handles the result
	}
	return s.guarded.Of(of.Number).Away
}

// countsLost handles a Redis server that may have lost counts, and drops the cached denials.
func (st *Stores) countsLost(s *server, of logging.StoreServer) {
	s.lost.Add(1)
	if s.denials != nil {
		s.denials.Drop()
	}
	s.compared.Store(false)
	st.options.OnLost(cmp.Or(of.Name, s.name))
	leases := s.noteLoss(of.Number, time.Now())
	st.log.Warn("the store may have lost counts: it was emptied or started again, or another server took over",
		"store", s.name, "server", cmp.Or(of.Name, s.name), "leased_keys", leases.UsedUp+leases.Kept,
		"used_up_keys", leases.UsedUp, "kept_keys", leases.Kept, "leased_units", leases.Units, "hint", s.lossHint())
}

// serverLoss is a loss of counts by one of the Redis servers, and what it touched of this process.
type serverLoss struct {
	number int
	at     time.Time
	lease.Loss
}

// maxLosses is how many losses a server remembers.
const maxLosses = 8

// noteLoss remembers that a Redis server may have lost counts, and returns what that touches of this process.
func (s *server) noteLoss(number int, at time.Time) lease.Loss {
	touched := s.leases.Lost(func(t *stint.Take) bool { return s.serverOf(t) == number })
	l := &s.lastLosses
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, serverLoss{number, at, touched})
	l.all = l.all[max(0, len(l.all)-maxLosses):]
	return touched
}

// lossesOf returns the last losses of the Redis server that has the key of a take.
func (s *server) lossesOf(t *stint.Take) (all []limitjson.LeaseLoss) {
	number, l := s.serverOf(t), &s.lastLosses
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if one.number == number {
			all = append(all, limitjson.LeaseLoss{AtMS: one.at.UnixMilli(), UsedUp: one.UsedUp, Kept: one.Kept, Units: one.Units})
		}
	}
	return all
}

// lossHint returns where to read what may pass after a server has lost counts.
func (s *server) lossHint() string {
	if s.memcached != nil {
		return "see docs/memcached.md for what may pass because of it"
	}
	return "see docs/redis-operation.md for what may pass because of it"
}

// serverStats returns for each Redis server whether it is away.
func (s *server) serverStats() (all []telemetry.ServerStats) {
	s.backends.Each(func(of logging.StoreServer, well bool) {
		all = append(all, telemetry.ServerStats{Name: cmp.Or(of.Name, s.name), Away: !well || s.guarded.Of(of.Number).Away})
	})
	return all
}

// Hint returns what to do about an error of the store.
func Hint(err error) string {
	if hint := hintOf(err); hint != "" {
		return hint
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "check the server's load and the network; where both are well, raise --store-timeout"
	}
	return "check the server's load and its log, and the network"
}
