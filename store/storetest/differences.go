package storetest

import (
	"testing"

	"stint"
	"stint/store/storetest/model"
)

// differences: the store decides the histories of model.Differences like the model.
func differences(t *testing.T, o Options) {
	for name, moments := range model.Differences() {
		t.Run(name, func(t *testing.T) { likeModel(t, o, moments) })
	}
}

// likeModel compares a store with the model in one history.
func likeModel(t *testing.T, o Options, moments []model.Moment) {
	t.Helper()
	var calls []stint.Call
	for _, m := range moments {
		calls = append(calls, stint.Call{At: noon.Add(m.At), Takes: []stint.Take{{Key: "a", Limit: m.Limit, Op: m.Op, Cost: m.Cost}}})
	}
	if problem := differs(t, o, calls); problem != "" {
		t.Error(problem)
	}
}
