package transaction_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"stint"
	"stint/internal/transaction"
)

// named returns an error about takes, as a store returns it.
func named(takes ...int) error {
	return fmt.Errorf("store: %w; %w", &stint.CorruptState{Takes: takes}, errHint)
}

var errHint = errors.New("mend the key")

func TestSaid(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errHint, false},
		{named(), false},
		{named(1), true},
		{fmt.Errorf("%w: %w", stint.ErrUnknown, named(1)), false},
		{transaction.Renumber(named(1), []int{0, 5}), true},
		{transaction.WithoutTakes(named(1)), false},
	} {
		if got := transaction.Undecodable(test.err) != nil; got != test.want {
			t.Errorf("%v: %v", test.err, got)
		}
	}
}

// A take that is decided as one with an undecided take was not decided either.
func TestDecided(t *testing.T) {
	apart, borrower := stint.Take{Independent: true}, stint.Take{Borrows: 1}
	apartBorrows := stint.Take{Independent: true, Borrows: 1}
	one := stint.Take{}
	for _, test := range []struct {
		takes       []stint.Take
		undecodable []int
		want        []bool
	}{
		{[]stint.Take{one, one, one}, nil, []bool{true, true, true}},
		{[]stint.Take{one, one, one}, []int{1}, []bool{false, false, false}},
		{[]stint.Take{one, apart, one, apart}, []int{1}, []bool{true, false, true, true}},
		{[]stint.Take{one, apart, one, apart}, []int{0}, []bool{false, true, false, true}},
		{[]stint.Take{apartBorrows, apart, one, apart}, []int{1}, []bool{false, false, true, true}},
		{[]stint.Take{apartBorrows, apart, one, apart}, []int{0}, []bool{false, false, true, true}},
		{[]stint.Take{apart, one}, []int{2}, []bool{false, false}},
		{[]stint.Take{apart, one}, []int{-1}, []bool{false, false}},
		{[]stint.Take{borrower, one, one, apart}, []int{1}, []bool{false, false, false, true}},
		{[]stint.Take{apartBorrows, apart, apartBorrows, apart}, []int{3}, []bool{true, true, false, false}},
	} {
		var said *stint.CorruptState
		if test.undecodable != nil {
			said = &stint.CorruptState{Takes: test.undecodable}
		}
		call := stint.Call{Takes: test.takes}
		for i, want := range test.want {
			if got := transaction.Decided(&call, said, i); got != want {
				t.Errorf("take %d of %+v without %d: %v", i, test.takes, test.undecodable, got)
			}
		}
	}
}

// The indexes are those of the whole call, in the text as well, and the rest of the error stays.
func TestRenumbered(t *testing.T) {
	for _, test := range []struct {
		takes, of, want []int
		text            string
	}{
		{[]int{0}, []int{3}, []int{3}, "store: the states of takes [3] cannot be read; mend the key"},
		{[]int{0, 2}, []int{1, 4, 2}, []int{1, 2}, "store: the states of takes [1 2] cannot be read; mend the key"},
		{[]int{0, 1}, []int{2, 1}, []int{1, 2}, "store: the states of takes [1 2] cannot be read; mend the key"},
		{[]int{0, 1}, []int{2, 2}, []int{2}, "store: the states of takes [2] cannot be read; mend the key"},
		{[]int{0, 1}, []int{2, -1}, []int{2}, "store: the states of takes [2] cannot be read; mend the key"},
		{[]int{-1, 0}, []int{2}, []int{2}, "store: the states of takes [2] cannot be read; mend the key"},
		{[]int{0, 1}, []int{2}, []int{2}, "store: the states of takes [2] cannot be read; mend the key"},
		{[]int{1}, []int{2, -1}, []int{2}, "store: the states of takes [2] cannot be read; mend the key"},
	} {
		err := fmt.Errorf("outside: %w", transaction.Renumber(named(test.takes...), test.of))
		if said := transaction.Undecodable(err); said == nil || !slices.Equal(said.Takes, test.want) {
			t.Errorf("%d of %d: %v, want %d", test.takes, test.of, said, test.want)
		}
		if err.Error() != "outside: "+test.text || !errors.Is(err, errHint) {
			t.Errorf("%d of %d: %v", test.takes, test.of, err)
		}
		twice := transaction.Renumber(err, []int{10, 11, 12, 13, 14})
		if said := transaction.Undecodable(twice); said == nil || said.Takes[0] != test.want[0]+10 {
			t.Errorf("%d of %d, once more: %v", test.takes, test.of, twice)
		}
	}
	if err := transaction.Renumber(errHint, nil); err != errHint { //nolint:errorlint // compared unwrapped
		t.Errorf("%v", err)
	}
}

func TestMuted(t *testing.T) {
	for _, test := range []struct {
		err     error
		same    bool
		unknown bool
	}{
		{errHint, true, false},
		{nil, true, false},
		{named(1), false, false},
		{fmt.Errorf("%w: %w", stint.ErrUnknown, named(1)), false, true},
	} {
		got := transaction.WithoutTakes(test.err)
		_, names := errors.AsType[*stint.CorruptState](got)
		if same := got == test.err; names || same != test.same || errors.Is(got, stint.ErrUnknown) != test.unknown { //nolint:errorlint // compared unwrapped
			t.Errorf("%v: %v", test.err, got)
		}
	}
}
