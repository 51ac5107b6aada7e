package limiter

import (
	"context"
	"maps"
	"testing"

	"stint"
	"stint/rule"
)

// placing is a store that records the places of the keys.
type placing struct {
	stint.Store
	places map[stint.Key]stint.Key
}

func (p *placing) Decide(ctx context.Context, c *stint.Call) error {
	for _, t := range c.Takes {
		p.places[stint.Key([]byte(t.Key))] = stint.Key([]byte(t.Place()))
	}
	return p.Store.Decide(ctx, c)
}

// TestPlace: the limits of one user have the place of shard_by, and so has the cap of an elastic
// limit. The pool has the place that its own requests have.
func TestPlace(t *testing.T) {
	rules := table(t, `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 10, shard_by: user, elastic: {from: total, upto: 300%}}
    descriptors:
      - key: path
        rate_limit: {unit: hour, requests_per_unit: 10, shard_by: [user]}
  - key: team
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: total
    value: all
    rate_limit: {unit: hour, requests_per_unit: 100, name: total, shard_by: total}
`)
	at := now
	store := &placing{memoryAt(&at), map[stint.Key]stint.Key{}}
	l := New(store, rules, Options{})
	req := describe(1, "user", "a", "team", "b")
	req.Descriptors = append(req.Descriptors, Descriptor{Cost: 1, Entries: []rule.Entry{{Key: "user", Value: "a"}, {Key: "path", Value: "/x"}}})
	var v Verdict
	if err := l.Decide(ctx, req, &v); err != nil || !v.Allowed {
		t.Fatal(v, err)
	}
	count := map[stint.Key]int{}
	for _, place := range store.places {
		count[place]++
	}
	if len(store.places) != 5 || len(count) != 3 || count["rrapi/team|1:b"] != 1 {
		t.Errorf("five keys in three places, one of them by itself, want: %q", store.places)
	}
	places := maps.Clone(store.places)
	if err := l.Decide(ctx, describe(1, "total", "all"), new(Verdict)); err != nil || !maps.Equal(places, store.places) {
		t.Errorf("a request of the pool counts elsewhere: %q and %q, error %v", store.places, places, err)
	}
	if err := l.Undo(ctx, &v); err != nil || len(store.places) != 5 {
		t.Errorf("giving back asks elsewhere: %q, %v", store.places, err)
	}
}
