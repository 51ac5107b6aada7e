package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stint"
	"stint/store/redis/connect"
)

// probes are takes that write a state of each structure, for some fifteen seconds.
var probes = []stint.Take{
	probe(stint.Spec{Algorithm: stint.TokenBucket, Requests: 1000, Per: time.Second}),
	probe(stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: time.Second}),
	probe(stint.Spec{Algorithm: stint.SlidingWindow, Requests: 1000, Per: time.Second}),
}

func probe(spec stint.Spec) stint.Take {
	return stint.Take{Key: "?probe", Limit: stint.MustLimit(spec), Cost: 1, Independent: true}
}

// Probe has the server decide takes of a key of its own, of a Cluster each primary, and keep
// what was taken: nil, or an error that says what is wrong and what to do. A server that is
// there may still be a replica, be full, or not let this user write.
func (s *Store) Probe(ctx context.Context) error { return failed(s.Look(ctx, true)) }

// probe has the server of a place decide.
func (s *Store) probe(ctx context.Context, place stint.Key) error {
	takes := slices.Clone(probes)
	for i := range takes {
		takes[i].Handling = &stint.Handling{Place: place}
	}
	err := s.Decide(ctx, &stint.Call{Takes: takes})
	if _, ok := errors.AsType[*stint.CorruptState](err); ok {
		return nil // somebody wrote into these keys
	}
	return err
}

// Warning is something about a server that will go wrong one day.
type Warning struct {
	Problem string
	Hint    string
}

// Warnings looks at all servers for settings that limits do not go well with: a policy
// by which a server that is full forgets keys, and with them what was used.
func (s *Store) Warnings(ctx context.Context) ([]Warning, error) {
	client, err := s.side.Client(ctx)
	if err != nil {
		return nil, connect.Explain("connect", err)
	}
	var all []Warning
	for address, node := range client.Nodes() {
		text, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			return all, connect.Explain("look at "+address, err)
		}
		all = append(all, judge(address, fieldsOf(text))...)
	}
	return all, nil
}

// judge returns what is wrong with the memory settings of a server.
func judge(address string, info map[string]string) []Warning {
	most, err := strconv.ParseInt(info["maxmemory"], 10, 64)
	if policy := info["maxmemory_policy"]; err == nil && most > 0 && policy != "noeviction" {
		return []Warning{{
			Problem: fmt.Sprintf("%s forgets keys when its %d bytes are full (maxmemory-policy %s), and who was over a limit starts anew", address, most, policy),
			Hint:    "set maxmemory-policy noeviction, give limits a server of their own, and watch used_memory",
		}}
	}
	return nil
}

// fieldsOf reads what INFO says.
func fieldsOf(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
