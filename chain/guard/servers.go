package guard

import (
	"context"
	"errors"
	"slices"

	"stint"
	"stint/internal/transaction"
)

// maxServers is the number of breakers; servers of higher numbers share them.
const maxServers = 1024

// gateOf returns the gate of a server, and makes it if the server is new.
func (s *Store) gateOf(server int) *gate {
	server %= maxServers
	if all := *s.gates.Load(); server < len(all) {
		return all[server]
	}
	s.gatesMu.Lock()
	defer s.gatesMu.Unlock()
	all := slices.Clone(*s.gates.Load())
	for n := len(all); n <= server; n++ {
		g := new(gate)
		g.init(&s.options, n, s.reportChange)
		all = append(all, g)
	}
	s.gates.Store(&all)
	return all[server]
}

// Servers returns the status of each server that calls have used, by number.
func (s *Store) Servers() []Status {
	all := *s.gates.Load()
	statuses := make([]Status, len(all))
	for i, g := range all {
		statuses[i] = g.status()
	}
	return statuses
}

// Of returns the status of a server: the zero Status, with its number, if no call has used it.
func (s *Store) Of(server int) Status {
	if all := *s.gates.Load(); server >= 0 && server < len(all) {
		return all[server].status()
	}
	return Status{Server: server}
}

// place returns the server of a call, and all its servers if there are several.
func (s *Store) place(call *stint.Call) (server int, several []int) {
	if s.options.Server == nil {
		return 0, nil
	}
	server = -1
	for i := range call.Takes {
		switch at := s.options.Server(&call.Takes[i]); {
		case at < 0 || at == server || slices.Contains(several, at):
		case server < 0:
			server = at
		case several == nil:
			several = []int{server, at}
		default:
			several = append(several, at)
		}
	}
	return max(server, 0), several
}

// errElsewhere is the error for a gate if another server failed.
var errElsewhere = errors.New("another server failed")

// decideAcross decides a call whose keys lie on several servers. If some are away, their takes
// follow their policies, and the store decides the others as a call without them.
func (s *Store) decideAcross(ctx context.Context, call *stint.Call, servers []int) error {
	flights := make([]*flight, len(servers))
	var away []int
	for i, server := range servers {
		if flights[i] = s.gateOf(server).enter(ctx, true); flights[i] == nil {
			away = append(away, server)
		}
	}
	if len(away) > 0 {
		for i, f := range flights {
			if f != nil {
				s.gateOf(servers[i]).leave(f, errElsewhere)
			}
		}
		if len(away) == len(servers) {
			return s.fallBack(ctx, call, nil)
		}
		return s.decideDivided(ctx, call, away, s.reason(nil))
	}
	return s.conclude(ctx, call, len(servers), s.askAll(flights, servers, call))
}

// askAll calls the store and passes the result, even a panic, to the gates of all servers. If the
// error names the servers that failed, it does not count for the others.
func (s *Store) askAll(flights []*flight, servers []int, call *stint.Call) (err error) {
	answered := false
	defer func() {
		if !answered {
			err = errPanicked
		}
		failed := transaction.FailedServers(err)
		for i, server := range servers {
			of := err
			if failed != nil && !slices.Contains(failed.Servers, server) {
				of = errElsewhere
			}
			s.gateOf(server).leave(flights[i], of)
		}
	}()
	err = s.inner.Decide(flights[0], call)
	answered = true
	return err
}

// decideDivided decides a call whose takes on some servers were not charged: these follow their
// policies, the store decides the others.
func (s *Store) decideDivided(ctx context.Context, call *stint.Call, servers []int, storeErr error) error {
	var takes []int
	for i := range call.Takes {
		if at := s.options.Server(&call.Takes[i]); at >= 0 && slices.Contains(servers, at) {
			takes = append(takes, i)
		}
	}
	if len(takes) == 0 { // their keys have moved meanwhile
		return s.fallBack(ctx, call, storeErr)
	}
	return s.decideWithout(ctx, call, takes, true, storeErr)
}
