package redis

import (
	"context"
	"errors"
	"slices"
	"time"

	"stint"
	"stint/store/redis/connect"
)

// probes write a state of each Redis type; these expire after about fifteen seconds.
var probes = []stint.Take{
	probe(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second}),
	probe(stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Second}),
	probe(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 1000, Per: time.Second}),
}

func probe(spec stint.Spec) stint.Take {
	return stint.Take{Key: "?probe", Limit: stint.MustLimit(spec), Cost: 1, Independent: true}
}

// Probe makes the server decide takes of a key of its own and write their states, on a Cluster each
// primary. The error says what is wrong and what to do. A server that answers Ping may still be a
// replica, be full, or not let this user write.
func (s *Store) Probe(ctx context.Context) error { return failed(s.Look(ctx, true)) }

// probe makes the server of a place decide the probes.
func (s *Store) probe(ctx context.Context, place stint.Key) error {
	takes := slices.Clone(probes)
	for i := range takes {
		takes[i].Handling = &stint.Handling{Place: place}
	}
	err := s.Decide(ctx, &stint.Call{Takes: takes})
	if _, ok := errors.AsType[*stint.CorruptState](err); ok {
		return nil // somebody wrote other values into these keys
	}
	return err
}

// Warning is a setting of a server that will cause wrong decisions some day.
type Warning = connect.Warning
