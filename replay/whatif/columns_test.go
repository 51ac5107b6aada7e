package whatif

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"stint"
	"stint/rule/rulefile"
	"stint/store/storetest/model"
)

// columnsAsModel sends random calls to the store of a replay and to one reference store for each
// column.
type columnsAsModel struct {
	*testing.T
	*rand.Rand
	states *Columns
	models []model.Store
	keys   []stint.Key
	kinds  []*Kind // limit of each key
	at     stint.Instant
}

// TestColumnsAsModel compares every decision in the first column, and every verdict in the others,
// with those of storetest.Model.
func TestColumnsAsModel(t *testing.T) {
	const columns, calls = 3, 300
	r := rand.New(rand.NewPCG(20, 26))
	table, err := rulefile.Parse(rulefile.Source{Name: "rules.yaml", Data: []byte(`
domain: api
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5, count: responses, statuses: [401]}
`)})
	if err != nil {
		t.Fatal(err)
	}
	answers := table.Rules()[0].Answers
	for round := range 60 {
		c := &columnsAsModel{T: t, Rand: r, states: NewColumns(columns), models: make([]model.Store, columns), at: 1_800_000_000_000_000}
		for i := range 6 {
			k := &Kind{}
			if i%3 == 1 {
				k.Answers = answers
			}
			for column := range columns {
				k.Limits = append(k.Limits, stint.MustLimit(c.spec(column == 0, k.Answers != nil)))
			}
			c.states.kinds[k.Limits[0]] = k
			c.kinds = append(c.kinds, k)
			c.keys = append(c.keys, stint.Key(fmt.Sprint("key", i)))
		}
		for step := range calls {
			if !c.step() {
				t.Fatalf("round %d, call %d", round, step)
			}
		}
	}
}

// spec returns a random limit. Only the first column may have settings that compared limits never
// have.
func (c *columnsAsModel) spec(first, counts bool) stint.Spec {
	algorithms := []stint.Algorithm{stint.FixedWindow, stint.TokenBucket, stint.SlidingLog, stint.SlidingWindow, stint.LeakyBucket}
	if first && counts {
		algorithms = algorithms[:4] // a leaky_bucket cannot count responses
	}
	spec := stint.Spec{Algorithm: algorithms[c.IntN(len(algorithms))], Requests: uint32(1 + c.IntN(6)), Per: time.Duration(1+c.IntN(60)) * time.Second}
	switch spec.Algorithm {
	case stint.TokenBucket:
		spec.Reserve, spec.Overdraw = first && counts, !counts && c.IntN(4) == 0
	case stint.SlidingLog:
		spec.CountDenied = !counts && c.IntN(3) == 0
	case stint.SlidingWindow:
		spec.StartUsedUp = first && c.IntN(3) == 0
	case stint.LeakyBucket:
		spec.Burst = uint32(c.IntN(4))
	}
	return spec
}

// take returns a random take of a key.
func (c *columnsAsModel) take(key int) stint.Take {
	costs := []uint32{0, 1, 1, 1, 2, 3, 9}
	return stint.Take{Key: c.keys[key], Limit: c.kinds[key].Limits[0], Cost: costs[c.IntN(len(costs))]}
}

// next returns a random call of keys 0 to 2, which may repeat; key 0 may borrow from 3 to 5.
func (c *columnsAsModel) next() stint.Call {
	c.at += stint.Instant(c.Int64N(20e6))
	call := stint.Call{At: c.at}
	leans, apart := c.IntN(2) == 0, c.IntN(4) == 0
	for range 1 + c.IntN(3) {
		t := c.take(c.IntN(3))
		t.Independent = apart
		if t.Key != c.keys[0] || !leans {
			call.Takes = append(call.Takes, t)
			continue
		}
		t.Borrows = uint8(1 + c.IntN(2))
		if len(call.Takes) > 0 && call.Takes[0].Borrows > 0 {
			t.Borrows = call.Takes[0].Borrows // takes of the same key must borrow alike
		}
		call.Takes = append(call.Takes, t)
		for i := range int(t.Borrows) {
			on := c.take(3 + 2*i)
			on.Cost, on.Independent = t.Cost, apart
			call.Takes = append(call.Takes, on)
		}
	}
	return call
}

// step sends one call to all stores and reports whether all results are equal.
func (c *columnsAsModel) step() bool {
	call := c.next()
	if borrowings(call.Takes) > 1 {
		return true // takes of one key that borrow differently are an error
	}
	results := make([][]stint.Decision, len(c.models))
	for column := range c.models {
		results[column] = c.model(column, call)
	}
	if err := c.states.Decide(c.Context(), &call); err != nil {
		c.Error(err)
		return false
	}
	ok := true
	if !reflect.DeepEqual(call.Results, results[0]) {
		c.Errorf("%+v\nanswered %+v\nwant     %+v", call.Takes, call.Results, results[0])
		ok = false
	}
	for column := range results {
		for i := range call.Takes {
			if denied := c.states.Denied[i]>>column&1 != 0; denied == results[column][i].Allowed {
				c.Errorf("column %d, take %d of %+v: denied %v", column, i, call.Takes, denied)
				ok = false
			}
		}
	}
	c.settle(call.Takes, results)
	return ok
}

// borrowings returns in how many different ways the first key borrows in a call.
func borrowings(takes []stint.Take) int {
	ways := map[uint8]bool{}
	for i := range takes {
		if takes[i].Key == "key0" {
			ways[takes[i].Borrows] = true
		}
	}
	return len(ways)
}

// model sends the takes of a call to the reference store of a column.
func (c *columnsAsModel) model(column int, call stint.Call) []stint.Decision {
	takes := make([]stint.Take, len(call.Takes))
	for i, t := range call.Takes {
		takes[i] = t
		takes[i].Limit = c.states.kinds[t.Limit].Limits[column]
	}
	call.Takes, call.Results = takes, nil
	if err := c.models[column].Decide(c.Context(), &call); err != nil {
		c.Fatal(err)
	}
	return call.Results
}

// settle settles all reservations, with a random status in each column.
func (c *columnsAsModel) settle(takes []stint.Take, results [][]stint.Decision) {
	statuses := [MaxColumns]int{}
	for column := range results {
		statuses[column] = []int{200, 401}[c.IntN(2)]
		passed := true
		for i := range takes {
			passed = passed && (takes[i].Independent || results[column][i].Allowed)
		}
		after := stint.Call{At: c.at}
		for i, t := range takes {
			d := results[column][i]
			if column > 0 && !t.Independent {
				t.Cost = sum(takes, i)
			}
			if c.states.kinds[t.Limit].Answers == nil || t.Cost == 0 || !d.Allowed || !t.Independent && !passed {
				continue
			}
			t.Op, t.Undo, t.Independent = stint.Refund, &d, true
			if statuses[column] == 401 {
				t.Op = stint.Settle
			}
			after.Takes = append(after.Takes, t)
		}
		want := c.model(column, after)
		if column > 0 || len(after.Takes) == 0 {
			continue
		}
		if err := c.states.Decide(c.Context(), &after); err != nil || !reflect.DeepEqual(after.Results, want) {
			c.Errorf("%+v\nanswered %+v, %v\nwant     %+v", after.Takes, after.Results, err, want)
		}
	}
	c.states.Settle(c.at, &statuses)
}

// sum returns the cost of all takes of the same key, for the first of them.
func sum(takes []stint.Take, first int) (cost uint32) {
	for i := range takes {
		if takes[i].Key == takes[first].Key {
			if i < first {
				return 0
			}
			cost += takes[i].Cost
		}
	}
	return cost
}

// An operation that a replay never uses is an error.
func TestStatesErrors(t *testing.T) {
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Second})
	take := func(op stint.Op) stint.Take { return stint.Take{Key: "a", Limit: limit, Cost: 1, Op: op} }
	undone := take(stint.Refund)
	undone.Undo = &stint.Decision{}
	for name, takes := range map[string][]stint.Take{
		"a forced take":         {take(stint.Force)},
		"a reset":               {take(stint.Reset)},
		"a reset after asks":    {take(stint.Ask), take(stint.Reset)},
		"an ask after a refund": {undone, take(stint.Ask)},
	} {
		s := NewColumns(1)
		s.kinds[limit] = &Kind{Limits: []*stint.Limit{limit}}
		if err := s.Decide(context.Background(), &stint.Call{At: 1, Takes: takes}); !errors.Is(err, errOps) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
