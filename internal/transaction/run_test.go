package transaction_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/internal/transaction"
)

var noon = stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))

// servers are participants with one part each.
type servers struct {
	run    *transaction.Run
	states []stint.State
	done   []transaction.Phase
	before func(phase transaction.Phase) // hook before each phase, for takes of others

	fails      transaction.Phase // phase in which the last server does not answer
	err        error
	background transaction.Background
}

func (s *servers) Detach() (transaction.Participants, *transaction.Background) {
	return s, &s.background
}

// Do does each step on its server.
func (s *servers) Do(_ context.Context, phase transaction.Phase, steps []transaction.Step) error {
	s.done = append(s.done, phase)
	if s.before != nil {
		s.before(phase)
	}
	var failed error
	for i := range steps {
		step := &steps[i]
		if s.err != nil && phase == s.fails && step.Part == len(s.states)-1 {
			step.Err, failed = s.err, s.err
			continue
		}
		step.Result = s.one(phase, step)
		step.Passed = step.Result.Allowed
	}
	return failed
}

// one does a step.
func (s *servers) one(phase transaction.Phase, step *transaction.Step) stint.Decision {
	limit, st := s.run.Parts[step.Part].Limit, &s.states[step.Part]
	switch {
	case phase == transaction.Test && s.run.Peeks:
		return limit.Test(st, noon, 0)
	case phase == transaction.Test:
		return limit.Test(st, noon, step.Cost)
	case step.Op == transaction.DebitCapped:
		return limit.ForStores().DebitCapped(st, noon, step.Cost)
	case step.Op == stint.Force:
		return limit.Force(st, noon, step.Cost)
	case step.Op == stint.Refund:
		return limit.Refund(st, noon, step.Cost, step.Undo)
	}
	return limit.Take(st, noon, step.Cost)
}

// start plans a call on new servers.
func start(t *testing.T, peeks bool, takes ...stint.Take) *servers {
	t.Helper()
	s := &servers{run: &transaction.Run{Plan: &transaction.Plan[transaction.ID]{Name: transaction.IDOf}, Peeks: peeks}}
	if err := s.run.Collect(&stint.Call{Takes: takes}, transaction.AllOrNone); err != nil {
		t.Fatal(err)
	}
	s.run.By, s.states = s, make([]stint.State, len(s.run.Parts))
	return s
}

// used returns how many units of each part are charged.
func (s *servers) used() (used []int64) {
	for i := range s.states {
		used = append(used, s.run.Parts[i].Limit.ForStores().Used(&s.states[i], noon))
	}
	return used
}

var (
	ten      = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Minute, Burst: 10})
	hour     = stint.MustLimit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Hour, Burst: 10})
	overdraw = stint.MustLimit(stint.Spec{Requests: 10, Per: time.Hour, Overdraw: true})
)

// If a server does not answer, nothing stays charged on the others, or the error is ErrUnknown.
func TestRunFails(t *testing.T) {
	fault := errors.New("fault")
	takes := []stint.Take{{Key: "a", Limit: ten, Cost: 3}, {Key: "o", Limit: overdraw, Cost: 2}, {Key: "b", Limit: ten, Cost: 1}}
	force := slices.Replace(slices.Clone(takes), 2, 3, stint.Take{Key: "b", Limit: ten, Cost: 1, Op: stint.Force})
	forces := append([]stint.Take{{Key: "f", Limit: ten, Cost: 1, Op: stint.Force}}, force...)
	for _, test := range []struct {
		name    string
		takes   []stint.Take
		fails   transaction.Phase
		used    []int64
		unknown bool
	}{
		{"test", takes, transaction.Test, []int64{0, 0, 0}, false},
		{"charge", takes, transaction.Charge, []int64{0, 0, 0}, false},
		{"change", force, transaction.Change, []int64{0, 0, 0}, false},
		{"second change", forces, transaction.Change, []int64{1, 0, 0, 0}, true},
	} {
		for _, peeks := range []bool{false, true} {
			s := start(t, peeks, test.takes...)
			s.fails, s.err = test.fails, fault
			err := s.run.Decide(t.Context())
			if !errors.Is(err, fault) || errors.Is(err, stint.ErrUnknown) != test.unknown || !slices.Equal(s.used(), test.used) {
				t.Errorf("%s, peeks %v: %v, used %d, want %d", test.name, peeks, err, s.used(), test.used)
			}
		}
	}
}

// If others take the rest between test and charge, everything is given back, except charges of a
// limit that overdraws.
func TestRunTooLate(t *testing.T) {
	for _, peeks := range []bool{false, true} {
		s := start(t, peeks, stint.Take{Key: "a", Limit: ten, Cost: 3}, stint.Take{Key: "o", Limit: overdraw, Cost: 2}, stint.Take{Key: "b", Limit: ten, Cost: 1})
		s.before = func(phase transaction.Phase) {
			if phase == transaction.Charge {
				ten.Take(&s.states[2], noon, 10)
			}
		}
		if err := s.run.Decide(t.Context()); err != nil || !slices.Equal(s.used(), []int64{0, 2, 10}) {
			t.Errorf("peeks %v: %v, used %d", peeks, err, s.used())
		}
		if p := s.run.Parts; !p[0].Result.Allowed || p[0].Result.Remaining != 10 || p[2].Result.Allowed || p[2].Result.RetryAfter != 6*time.Second {
			t.Errorf("peeks %v: %+v", peeks, p)
		}
	}
}

// A part whose source others emptied meanwhile gets the sooner retry time of both ways.
func TestRunTooLateBorrows(t *testing.T) {
	for _, test := range []struct {
		own, pool *stint.Limit
		want      time.Duration
	}{
		{ten, hour, 6 * time.Second},
		{hour, ten, 6 * time.Second},
	} {
		s := start(t, false, stint.Take{Key: "a", Limit: test.own, Cost: 1, Borrows: 1}, stint.Take{Key: "pool", Limit: test.pool, Cost: 1})
		test.own.Take(&s.states[0], noon, 10)
		s.before = func(phase transaction.Phase) {
			if phase == transaction.Charge {
				test.pool.Take(&s.states[1], noon, 10)
			}
		}
		err := s.run.Decide(t.Context())
		if d := s.run.Parts[0].Result; err != nil || d.Allowed || d.Over || d.RetryAfter != test.want {
			t.Errorf("%v, %+v, want retry after %v", err, d, test.want)
		}
	}
}

// If others take most of a key between test and charge, takes of at most their costs get what is
// left, and are denied only if nothing is. Others that take some each time leave 1 unit in the end.
func TestRunAtMost(t *testing.T) {
	atMost := func(key stint.Key, cost uint32) stint.Take {
		return stint.Take{Key: key, Limit: ten, Cost: cost, Op: stint.AskAtMost}
	}
	for _, test := range []struct {
		name    string
		others  []uint64 // what others take of b before each charge
		charged uint32
		used    []int64
	}{
		{"alone", nil, 6, []int64{6, 6}},
		{"others leave 4", []uint64{6}, 4, []int64{4, 10}},
		{"others leave none", []uint64{10}, 0, []int64{0, 10}},
		{"others take some each time", []uint64{5, 3, 1}, 1, []int64{1, 10}},
	} {
		for _, peeks := range []bool{false, true} {
			s, tries := start(t, peeks, atMost("a", 6), atMost("b", 20)), 0
			s.before = func(phase transaction.Phase) {
				if phase == transaction.Charge && tries < len(test.others) {
					ten.Take(&s.states[1], noon, test.others[tries])
					tries++
				}
			}
			err := s.run.Decide(t.Context())
			for i, p := range s.run.Parts {
				if d := p.Result; err != nil || d.Charged != test.charged || d.Allowed != (test.charged > 0 || i == 0) {
					t.Errorf("%s, peeks %v, part %d: %v, %+v, want %d charged", test.name, peeks, i, err, d, test.charged)
				}
			}
			if !slices.Equal(s.used(), test.used) {
				t.Errorf("%s, peeks %v: used %d, want %d", test.name, peeks, s.used(), test.used)
			}
		}
	}
}
