package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"stint"
	"stint/store/storetest/model"
)

// differential compares the store with the model in random histories: every decision is the same in
// all of its fields, for single takes and calls of several, forced, given back, Independent, of
// costs up to the limit, under numbers that change, and, if the store allows it, with clocks that
// leap both ways. It shortens a history that fails as far as possible.
func differential(t *testing.T, o Options) {
	histories := *historiesFlag
	if o.Slow {
		histories /= 10
	}
	r := random(t)
	for i := range histories {
		h := model.NewHistory(r, noon, o.NoBorrowing)
		if o.SameNumbers {
			known := map[stint.Algorithm]bool{}
			h.Limits = slices.DeleteFunc(h.Limits, func(l *stint.Limit) bool {
				again := known[l.Algorithm()]
				known[l.Algorithm()] = true
				return again
			})
		}
		if o.Scattered && count(h.Limits, isLog) > 1 { // see Options.Scattered
			h.Limits = slices.DeleteFunc(h.Limits, func(l *stint.Limit) bool { return l.Spec().MinInterval > 0 })
		}
		if len(h.Limits) == 0 {
			continue
		}
		store, other := start(t, o), tester{t, new(model.Store)}
		var calls []stint.Call
		for range 100 {
			calls = append(calls, h.Next(o.Backwards))
			want, problem := compare(store, other, calls[len(calls)-1], o)
			if problem == "" {
				h.Remember(calls[len(calls)-1], want)
				continue
			}
			calls = model.Shrink(calls, func(calls []stint.Call) bool { return differs(t, o, calls) != "" })
			t.Fatalf("history %d: %s", i, differs(t, o, calls))
		}
	}
}

// compare decides a call with the store and the model, and returns the decisions and how they
// differ.
func compare(store, other tester, call stint.Call, o Options) ([]stint.Decision, string) {
	answer, err := ask(store, call)
	want, wantErr := ask(other, call)
	if o.Scattered {
		model.ForgiveWait(call, answer, want)
	}
	if (err == nil) == (wantErr == nil) && reflect.DeepEqual(answer, want) {
		return want, ""
	}
	return want, fmt.Sprintf(" got %+v %v\nwant %+v %v", answer, err, want, wantErr)
}

// differs decides calls with a new store and a new model, and returns how they differ; "" if they
// do not.
func differs(t *testing.T, o Options, calls []stint.Call) string {
	var text strings.Builder
	store, other := start(t, o), tester{t, new(model.Store)}
	for _, call := range calls {
		fmt.Fprintf(&text, "at noon%+dµs:\n%s", call.At-noon, model.Describe(call))
		if _, problem := compare(store, other, call, o); problem != "" {
			return text.String() + problem
		}
	}
	return ""
}

func isLog(l *stint.Limit) bool { return l.Algorithm() == stint.SlidingLog }

// count returns the number of limits that is selects.
func count(limits []*stint.Limit, is func(*stint.Limit) bool) (n int) {
	for _, l := range limits {
		if is(l) {
			n++
		}
	}
	return n
}

// ask decides a copy of the call.
func ask(s tester, call stint.Call) ([]stint.Decision, error) {
	call.Results = nil
	if err := s.Decide(context.Background(), &call); err != nil {
		return nil, err
	}
	return call.Results, nil
}
