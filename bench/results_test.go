package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stint/bench/contest"
)

// TestMain lets the tests start the floors, which are this program.
func TestMain(m *testing.M) {
	contest.ServeIfFloor()
	os.Exit(m.Run())
}

// Ratios are those of the same round, and each round begins with another contestant.
func TestTurns(t *testing.T) {
	var order []string
	rate, memory := column{"rate", false}, column{"memory", true}
	next := func(name string, rates ...float64) contestant {
		n := -1
		whose := map[string]role{"floor": isFloor, "ours": isOurs, "apart": isOursApart, "peer": isPeer}[name]
		return contestant{name, whose, func(context.Context) (map[column]float64, error) {
			order = append(order, name)
			n++
			if name == "floor" {
				return map[column]float64{rate: rates[n]}, nil
			}
			return map[column]float64{rate: rates[n], memory: 100 / rates[n]}, nil
		}}
	}
	r := &results{date: time.Now(), rounds: 3}
	list := []contestant{next("floor", 1, 2, 4), next("ours", 3, 2, 2), next("apart", 1, 1, 1), next("peer", 1, 4, 8)}
	if err := r.turns(t.Context(), "group", 3, list); err != nil {
		t.Fatal(err)
	}
	if want := strings.Fields("floor ours apart peer ours apart peer floor apart peer floor ours"); !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
	var table, page strings.Builder
	r.writeTable(&table)
	want := `| | figure | of | smallest | middle | largest |
|---|---|---|---|---|---|
| group | memory (less is better) | **ours** | | 1 | |
| | | **apart** | 2.00 | 2.00 | 3.00 |
| | | peer | 0.25 | 0.50 | 3.00 |
| group | rate | floor | | 1 | |
| | | **ours** | 0.50 | 1.00 | 3.00 |
| | | **apart** | 0.25 | 0.50 | 1.00 |
| | | peer | 1.00 | 2.00 | 2.00 |
`
	if table.String() != want {
		t.Errorf("the table is\n%s", &table)
	}
	if lost := r.losses(); !slices.Equal(lost, []string{"group, memory: ours has 2.00 of peer", "group, rate: ours has 0.50 of peer"}) {
		t.Errorf("losses %q", lost)
	}
	r.command("x", "ask 127.0.0.1:4711 -p 4711")
	r.writePage(&page)
	for _, part := range []string{"- group, rate: ours has 0.50 of peer\n", "- x: `ask 127.0.0.1:PORT -p PORT`\n", "one run of 3 rounds"} {
		if !strings.Contains(page.String(), part) {
			t.Errorf("the page has no %q:\n%s", part, &page)
		}
	}
}

// TestCompareAll runs all servers and Redis clients once, with tiny loads: each gives its figures, and none denies.
func TestCompareAll(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	s := settings{rounds: 1, time: 20 * time.Millisecond}
	if err := compareAll(t.Context(), s, "redis,resp,grpc,http", page); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"| **stint/store/redis** | ", "| **stint CL.THROTTLE, 10,000 keys** | ", "| **stint, counts in memory** | ", "| **stint, by a rule** | ", "gubernator: not measured"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the page has no %q:\n%s", part, text)
		}
	}
	for _, wrong := range []settings{{rounds: 4, time: time.Second}, {rounds: 5, time: time.Minute}, {rounds: 5}} {
		if wrong.check() == nil {
			t.Errorf("%+v is in the bounds", wrong)
		}
	}
}
