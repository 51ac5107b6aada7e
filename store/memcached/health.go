package memcached

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"stint"
	"stint/store/memcached/meta"
)

// Health is what Look has found.
type Health struct {
	// Err is why the server does not answer or cannot decide; nil if it can.
	Err error

	// Lost reports that the server has lost all counts since the last Look: it was started again, or
	// emptied.
	Lost bool

	// Evicted is how many keys the server has evicted since the last Look to make room for others.
	Evicted uint64

	// Evicts reports that the server evicts keys when its memory is full: it was started without -M.
	Evicts bool
}

// evictingFor is how long calls fail after the server evicted keys.
const evictingFor = 5 * time.Second

// numbers are what Look remembers of the server.
type numbers struct {
	pid, evictions, flushes uint64
	started                 int64 // Unix time
}

// Look reads the numbers of the server, and compares them with those of the last Look. With decide it
// also checks that the server can decide. A server that has evicted keys may have forgotten who was over
// a limit: for five seconds after that all calls fail, so that each rule follows its failure policy.
func (s *Store) Look(ctx context.Context, decide bool) (h Health) {
	stats, err := s.stats(ctx, "")
	if err != nil {
		return Health{Err: err}
	}
	settings, err := s.stats(ctx, "settings")
	if err != nil {
		return Health{Err: err}
	}
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(stats[name], 10, 64) // 0 for a server without this number
		return n
	}
	found := numbers{pid: number("pid"), evictions: number("evictions"), flushes: number("cmd_flush")}
	found.started = int64(number("time")) - int64(number("uptime"))
	h.Evicts = settings["evictions"] == "on"
	if was := s.seen.Swap(&found); was != nil {
		late := found.started - was.started // both are read in whole seconds
		h.Lost = found.pid != was.pid || late > 1 || found.flushes > was.flushes
		if !h.Lost && found.evictions > was.evictions {
			h.Evicted = found.evictions - was.evictions
			s.evictingUntil.Store(time.Now().Add(evictingFor).UnixNano())
		}
	}
	if h.Err = s.evicting(); h.Err == nil && decide {
		h.Err = s.probe(ctx)
	}
	return h
}

// stats reads a group of the server's numbers.
func (s *Store) stats(ctx context.Context, group string) (map[string]string, error) {
	replies, err := s.client.Do(ctx, 0, meta.Stats(group))
	switch {
	case err != nil:
		return nil, explain("ask for the numbers of the server", err, false)
	case replies[0].Status != meta.Numbers:
		return nil, rejected("ask for the numbers of the server", replies[0].Problem)
	}
	return replies[0].Numbers, nil
}

// evicting returns the error of all calls while the server evicts keys; nil if it does not.
func (s *Store) evicting() error {
	if until := s.evictingUntil.Load(); until == 0 || time.Now().UnixNano() > until {
		return nil
	}
	return &Error{
		Doing: "decide", Problem: "the server evicts keys, and with them counts, as its memory is full",
		Hint: "give limits a server of their own, with more memory (-m), and start it with -M",
	}
}

// Ping asks the server for an answer. The error says what is wrong and what to do. Probe also checks
// that it can decide.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.stats(ctx, "")
	return err
}

// probes are a counter and an item, which expire after about fifteen seconds.
var probes = []stint.Take{
	{Key: "?probe", Limit: stint.MustLimit(stint.Spec{Requests: 1000, Per: time.Second}), Cost: 1, Independent: true},
	{Key: "?probe", Limit: stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second}), Cost: 1, Independent: true},
}

// Probe makes the server decide takes of a key of its own.
func (s *Store) Probe(ctx context.Context) error { return cmp.Or(s.evicting(), s.probe(ctx)) }

func (s *Store) probe(ctx context.Context) error {
	err := s.Decide(ctx, &stint.Call{Takes: probes})
	if _, ok := errors.AsType[*stint.CorruptState](err); ok {
		return nil // somebody wrote other values into these keys
	}
	return err
}

// Warning is a setting of a server that will cause wrong decisions some day.
type Warning struct {
	Problem string
	Hint    string
}

// Warnings reads the settings of the server and returns those that are dangerous for limits: a server
// that evicts keys when its memory is full, and with them the counts.
func (s *Store) Warnings(ctx context.Context) ([]Warning, error) {
	settings, err := s.stats(ctx, "settings")
	if err != nil || settings["evictions"] != "on" {
		return nil, err
	}
	return []Warning{{
		Problem: fmt.Sprintf("%s evicts keys when its %s bytes are full, and who was over a limit starts anew", s.address, settings["maxbytes"]),
		Hint:    "start memcached with -M, give limits a server of their own, and watch its bytes and evictions",
	}}, nil
}

// KeepSecret returns the fingerprint of the secret with which nodes hash values in keys.
// NAMESPACE:secret holds it and never expires; "" means that there is none. If there is none,
// KeepSecret stores own, unless own is empty, and returns first as true.
func (s *Store) KeepSecret(ctx context.Context, own string) (kept string, first bool, err error) {
	name := s.namespace + ":secret"
	commands := []meta.Command{meta.Get(name)}
	if own != "" {
		commands = []meta.Command{meta.Set(name, []byte(own), 0, 0), meta.Get(name)}
	}
	replies, err := s.client.Do(ctx, 0, commands...)
	if err != nil {
		return "", false, explain("keep the fingerprint of the namespace secret", err, false)
	}
	last := &replies[len(replies)-1]
	for _, r := range replies {
		if r.Status == meta.Rejected {
			return "", false, rejected("keep the fingerprint of the namespace secret", r.Problem)
		}
	}
	return string(last.Value), own != "" && replies[0].Status == meta.Done, nil
}
