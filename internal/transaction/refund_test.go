package transaction_test

import (
	"fmt"
	"slices"
	"testing"

	"stint"
	"stint/internal/transaction"
)

// Refunds gives back each charge once: those of one decision together, and the newest first.
func TestRefunds(t *testing.T) {
	unlimited := stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited})
	fits, denied, over := stint.Decision{Allowed: true}, stint.Decision{}, stint.Decision{Allowed: true, Over: true}
	at := func(n int) stint.Decision { return stint.Decision{Allowed: true, At: stint.Instant(n)} }
	take := func(key stint.Key, cost uint32) stint.Take { return stint.Take{Key: key, Limit: ten, Cost: cost} }
	apart := func(key stint.Key, cost uint32) stint.Take {
		return stint.Take{Key: key, Limit: ten, Cost: cost, Independent: true}
	}
	for _, test := range []struct {
		name    string
		takes   []stint.Take
		results []stint.Decision
		corrupt *stint.CorruptState
		want    []string
		lasting bool
	}{
		{"one key", []stint.Take{take("a", 2), take("b", 1), take("a", 3)}, []stint.Decision{fits, fits, fits}, nil, []string{"a 5", "b 1"}, false},
		{"two decisions of a key", []stint.Take{apart("a", 2), apart("a", 3)}, []stint.Decision{at(1), at(2)}, nil, []string{"a 3", "a 2"}, false},
		{"all or none first", []stint.Take{apart("a", 2), take("a", 3)}, []stint.Decision{at(2), at(1)}, nil, []string{"a 2", "a 3"}, false},
		{"too large", []stint.Take{take("a", stint.MaxCost), take("a", 1)}, []stint.Decision{fits, fits}, nil, []string{fmt.Sprint("a ", uint32(stint.MaxCost))}, false},
		{"denied", []stint.Take{take("a", 2), take("b", 11), apart("c", 1), apart("d", 11)}, []stint.Decision{fits, denied, fits, denied}, nil, []string{"c 1"}, false},
		{"denied and charged", []stint.Take{take("a", 11), {Key: "o", Limit: overdraw, Cost: 1}}, []stint.Decision{denied, fits}, nil, nil, true},
		{"denied peek", []stint.Take{take("a", 11), {Key: "o", Limit: overdraw}}, []stint.Decision{denied, fits}, nil, nil, false},
		{"nothing charged", []stint.Take{take("a", 0), {Key: "u", Limit: unlimited, Cost: 1}}, []stint.Decision{fits, fits}, nil, nil, false},
		{"forced", []stint.Take{{Key: "a", Limit: ten, Cost: 1, Op: stint.Force}}, []stint.Decision{fits}, nil, nil, true},
		{"forced, denied", []stint.Take{take("a", 11), {Key: "b", Limit: ten, Cost: 1, Op: stint.Force}}, []stint.Decision{denied, fits}, nil, nil, false},
		{"borrowed", []stint.Take{{Key: "a", Limit: ten, Cost: 2, Borrows: 1}, take("pool", 2)}, []stint.Decision{over, fits}, nil, []string{"pool 2"}, false},
		{"source denies nobody", []stint.Take{{Key: "a", Limit: ten, Cost: 2, Borrows: 1}, take("pool", 2)}, []stint.Decision{fits, denied}, nil, []string{"pool 2", "a 2"}, false},
		{"debited in part", []stint.Take{{Key: "a", Limit: ten, Cost: 2, Borrows: 1}, take("pool", 2)}, []stint.Decision{fits, over}, nil, []string{"a 2"}, true},
		{"undecodable", []stint.Take{take("a", 1), take("b", 1), apart("c", 1)}, []stint.Decision{fits, fits, fits}, &stint.CorruptState{Takes: []int{1}}, []string{"c 1"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var charges transaction.Charges
			charges.Add(7, &stint.Call{Takes: test.takes, Results: test.results}, test.corrupt)
			var got []string
			for _, c := range charges.Refunds(nil) {
				back := transaction.Refund(*c.Take, c.Cost, c.By)
				if c.On != 7 || back.Op != stint.Refund || !back.Independent || back.Borrows != 0 || back.Undo != c.By {
					t.Errorf("%+v", back)
				}
				got = append(got, fmt.Sprint(back.Key, " ", back.Cost))
			}
			if !slices.Equal(got, test.want) || charges.Lasting != test.lasting || len(charges.List) > 0 {
				t.Errorf("%q, lasting %v, left %d, want %q, lasting %v", got, charges.Lasting, len(charges.List), test.want, test.lasting)
			}
		})
	}
}

// What Refunds does not select stays charged, and can be given back later.
func TestRefundsOfSome(t *testing.T) {
	fits := stint.Decision{Allowed: true}
	call := stint.Call{
		Takes:   []stint.Take{{Key: "a", Limit: ten, Cost: 1}, {Key: "o", Limit: overdraw, Cost: 1}},
		Results: []stint.Decision{fits, fits},
	}
	var charges transaction.Charges
	charges.Add(0, &call, nil)
	for _, want := range []stint.Key{"a", "o"} {
		back := charges.Refunds(func(c transaction.Charged) bool { return c.Take.Key == want })
		if len(back) != 1 || back[0].Take.Key != want {
			t.Errorf("%+v, want only %s", back, want)
		}
	}
}
