package loadtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stint/internal/testkit"
)

// passed makes allowed answers from pairs of times in seconds: sent and answered.
func passedAt(pairs ...[2]float64) (all []FleetAnswer) {
	for _, p := range pairs {
		at := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
		all = append(all, FleetAnswer{Sent: at(p[0]), Answered: at(p[1]), Allowed: true})
	}
	return all
}

func TestFleetWorst(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers []FleetAnswer
		want    FleetWindow // for a limit of 2 at once and 1 a second
	}{
		{"nothing", nil, FleetWindow{May: 2}},
		{"what was refused", []FleetAnswer{{}, {}, {}, {}}, FleetWindow{May: 2}},
		{"the burst", passedAt([2]float64{0, 0}, [2]float64{0, 0}), FleetWindow{Passed: 2, May: 2}},
		{"the burst and the rate", passedAt([2]float64{0, 0}, [2]float64{0, 0}, [2]float64{1, 1}, [2]float64{2, 2}), FleetWindow{Passed: 2, May: 2}},
		{"one too many", passedAt([2]float64{1, 1}, [2]float64{1, 1}, [2]float64{1.5, 1.5}), FleetWindow{500 * time.Millisecond, 3, 2.5}},
		{"a burst in the middle", passedAt([2]float64{0, 0}, [2]float64{5, 5}, [2]float64{5, 5}, [2]float64{5, 5}, [2]float64{5, 6}), FleetWindow{Passed: 3, May: 2}},
		{"in doubt", passedAt([2]float64{0, 4}, [2]float64{1, 3}, [2]float64{2, 2}), FleetWindow{Passed: 1, May: 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := WorstOf(test.answers, 2, 1); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestFleetPercentile(t *testing.T) {
	var answers []FleetAnswer
	for i := range 200 {
		answers = append(answers, FleetAnswer{Sent: 5, Answered: time.Duration(5 + i)})
	}
	for _, test := range []struct {
		percent int
		want    time.Duration
	}{{0, 0}, {50, 100}, {99, 198}, {100, 199}} {
		if got := PercentileOf(answers, test.percent); got != test.want {
			t.Errorf("%d%%: %d, want %d", test.percent, got, test.want)
		}
	}
	if got := PercentileOf(nil, 50); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// If a node has ended, its callers continue at the next one, and no answer is counted twice.
func TestFleet(t *testing.T) {
	var asked atomic.Int64
	alive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"allowed":%t}`, asked.Add(1) <= 5)
	}))
	defer alive.Close()
	dead := httptest.NewServer(nil)
	dead.Close()
	fleet := Fleet{Nodes: []string{dead.URL, alive.URL}, Callers: 2, Each: 10, Questions: []string{Question("api", "user", "a", 1), "{}"}}
	record, err := fleet.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := record.Of(func(a *FleetAnswer) bool { return a.Question == 0 })
	if len(record.Answers) != 38 || record.Lost != 2 || AllowedOf(record.Answers) != 5 || len(first) != 18 {
		t.Errorf("%d answers, %d of them of the first question, %d lost, %d allowed", len(record.Answers), len(first), record.Lost, AllowedOf(record.Answers))
	}
}

func TestFleetRefused(t *testing.T) {
	wrong := httptest.NewServer(http.NotFoundHandler())
	defer wrong.Close()
	fleet := Fleet{Nodes: []string{wrong.URL}, Callers: 2, Each: 10, Questions: []string{"{}"}}
	if _, err := fleet.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "404 Not Found: 404 page not found") {
		t.Errorf("error %v", err)
	}
}

func TestStoreCalls(t *testing.T) {
	server := testkit.StartRedis(t)
	for i := range 3 {
		if n, err := StoreCalls(server.Addr); n != i || err != nil {
			t.Errorf("%d calls, error %v; want %d", n, err, i)
		}
		server.Do("EVAL", "return 1", "0")
	}
	server.Stop()
	if _, err := StoreCalls(server.Addr); err == nil {
		t.Error("no error of a server that is gone")
	}
}
