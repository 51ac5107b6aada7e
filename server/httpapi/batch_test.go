package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"stint"
	"stint/limiter"
	"stint/rule/rulefile"
)

// The checks of a batch are decided each by itself, in order, and answered in order.
func TestBatch(t *testing.T) {
	l, _ := newLimiter(t)
	handler := NewTraffic(l, TrafficOptions{}).Handler()
	one := func(user string, cost int) string {
		return fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":%q}]}],"cost":%d}`, user, cost)
	}
	body := `{"checks":[` + strings.Join([]string{
		one("ann", 3), one("ann", 3), one("ann", 2), one("mallory", 1), one("root", 1),
		`{"key":"x","limit":{"requests":1,"per":"1h"}}`, `{"key":"x","limit":{"requests":1,"per":"1h"}}`, `{"key":"y","limit":{"requests":5,"per":"1h"},"cost":9,"at_most":true}`,
	}, ",") + `]}`
	status, answer, _ := call(t, handler, "POST", CheckPath, body)
	var got struct {
		Checks []struct {
			Allowed   bool   `json:"allowed"`
			Rule      string `json:"rule"`
			Remaining *int   `json:"remaining"`
			Charged   int    `json:"charged"`
		} `json:"checks"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 {
		t.Fatalf("%d %v: %s", status, err, answer)
	}
	var text []string
	for _, c := range got.Checks {
		text = append(text, fmt.Sprint(c.Allowed, " ", c.Rule, " ", c.Charged))
	}
	if want := "true api/user 0,false api/user 0,true api/user 0,false api/deny#1 0,true api/exempt#1 0,true  0,false  0,true  5"; strings.Join(text, ",") != want {
		t.Errorf("%s, want %s", strings.Join(text, ","), want)
	}
}

// One wrong check refuses the batch, with its place, and nothing is charged.
func TestBatchWrong(t *testing.T) {
	l, _ := newLimiter(t)
	handler := NewTraffic(l, TrafficOptions{}).Handler()
	good := `{"key":"x","limit":{"requests":1,"per":"1h"}}`
	many := strings.Repeat(good+",", MaxChecks) + good
	wide := `{"domain":"api","descriptors":[` + strings.Repeat(`{"entries":[{"key":"user","value":"x"}]},`, 9) + `{"entries":[{"key":"user","value":"x"}]}]}`
	for body, want := range map[string]string{
		`{"checks":[` + good + `,{"key":"","limit":{"requests":1,"per":"1h"}}]}`: `checks[1].key`,
		`{"checks":[` + good + `,{"domain":"api"}]}`:                             `checks[1].descriptors`,
		`{"checks":[` + good + `],"cost":2}`:                                     `given beside other fields`,
		`{"checks":[]}`:                                                          `"message":"checks: empty`,
		`{"checks":[{"checks":[` + good + `]}]}`:                                 `a batch within a batch`,
		`{"checks":[` + many + `]}`:                                              `more than 1000 checks`,
		`{"checks":[` + strings.Repeat(wide+",", MaxBatchDescriptors/10) + `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"x"}]}]}]}`: `checks[500]: more than 5000 descriptors in all checks`,
		`{"checks":7}`: `an array`,
	} {
		if status, answer, _ := call(t, handler, "POST", CheckPath, body); status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%.80s: %d %s, want %s", body, status, answer, want)
		}
	}
	if status, answer, _ := call(t, handler, "POST", CheckPath, good); status != 200 || !strings.Contains(answer, `"allowed":true`) {
		t.Errorf("afterwards: %d %s", status, answer)
	}
	admin := NewAdmin(l, AdminOptions{})
	for _, path := range []string{"/v1/inspect", "/v1/reset"} {
		if status, answer, _ := call(t, admin, "POST", path, `{"checks":[`+good+`]}`); status != 400 || !strings.Contains(answer, "/v1/check") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}

// gathering is a store that decides nothing before n calls are there, and then fails every second.
type gathering struct {
	n       int64
	arrived atomic.Int64
	all     chan struct{}
}

func (g *gathering) Decide(ctx context.Context, call *stint.Call) error {
	n := g.arrived.Add(1)
	if n == g.n {
		close(g.all)
	}
	select {
	case <-g.all:
	case <-ctx.Done():
		return ctx.Err()
	}
	if string(call.Takes[0].Key)[1:] == "bad" {
		return errors.New("away")
	}
	call.Results = append(call.Results[:0], stint.Decision{Allowed: true, Limit: 1})
	return nil
}

// A store that decides calls together gets all checks of a batch at once. One that fails has an error
// in its place.
func TestBatchTogether(t *testing.T) {
	table, err := rulefile.Parse(rulefile.Source{Name: "api.yaml", Data: []byte(rules)})
	if err != nil {
		t.Fatal(err)
	}
	store := &gathering{n: MaxChecks, all: make(chan struct{})}
	handler := NewTraffic(limiter.New(store, table, limiter.Options{}), TrafficOptions{Together: true}).Handler()
	checks := make([]string, MaxChecks)
	for i := range checks {
		key := "good"
		if i%2 == 1 {
			key = "bad"
		}
		checks[i] = `{"key":"` + key + `","limit":{"requests":1,"per":"1h"}}`
	}
	status, answer, _ := call(t, handler, "POST", CheckPath, `{"checks":[`+strings.Join(checks, ",")+`]}`)
	var got struct {
		Checks []struct {
			Allowed bool                   `json:"allowed"`
			Error   *struct{ Code string } `json:"error"`
		} `json:"checks"`
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 || len(got.Checks) != MaxChecks {
		t.Fatalf("%d %v %.200s", status, err, answer)
	}
	for i, c := range got.Checks {
		if bad := i%2 == 1; c.Allowed == bad || (c.Error != nil) != bad || bad && c.Error.Code != "no_decision" {
			t.Fatalf("check %d: %+v", i, c)
		}
	}
}
