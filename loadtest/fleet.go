package loadtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// fleetPatience is how long a caller waits for an answer.
const fleetPatience = 30 * time.Second

// Fleet describes the callers, the nodes and the requests of a run.
type Fleet struct {
	// Nodes are the services, as http://HOST:PORT. If a node does not answer, its callers continue
	// at the next one.
	Nodes []string

	// Callers is how many callers each node has at first. Each waits for its answer before the next
	// request.
	Callers int

	// Pause is the time between the starts of two requests of a caller; 0: none. A late caller
	// sends at once, and skips the requests that it missed.
	Pause time.Duration

	// Each is the most requests of a caller. It bounds every run, so it has no default: with 0
	// there are no requests.
	Each int

	// Questions are bodies of POST /v1/check. Each caller sends them in turn; callers start at
	// different ones, as far apart as possible.
	Questions []string
}

// Question returns a body that takes units of one descriptor with one entry.
func Question(domain, key, value string, cost int) string {
	return fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":%q}],"cost":%d}]}`, domain, key, value, cost)
}

// FleetAnswer is one answer to a caller. Its times are by the caller's clock, since the run began.
type FleetAnswer struct {
	Sent, Answered    time.Duration
	Node, Question    int // indexes in the Fleet
	Allowed, Degraded bool
}

// FleetRecord has the answers to all callers of a run.
type FleetRecord struct {
	Answers []FleetAnswer // in the order of Sent
	Lost    int           // requests without an answer, which may have been decided or not
	Took    time.Duration // the whole run
}

// Run runs all callers until they have sent all their requests, or the context ends. An answer that
// is no decision ends the run with an error.
func (f *Fleet) Run(ctx context.Context) (FleetRecord, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// A service closes a connection that has no request in its first five seconds. So the client
	// closes unused connections before it could send on them at that moment.
	transport := &http.Transport{MaxIdleConnsPerHost: f.Callers * len(f.Nodes), IdleConnTimeout: 2 * time.Second}
	defer transport.CloseIdleConnections()
	r := fleetRun{fleet: f, began: time.Now(), client: http.Client{Transport: transport, Timeout: fleetPatience}}
	var callers sync.WaitGroup
	for node := range f.Nodes {
		for i := range f.Callers {
			callers.Go(func() {
				if err := r.call(ctx, node, (node*f.Callers+i)*len(f.Questions)/(len(f.Nodes)*f.Callers)); err != nil {
					r.failed(err)
					stop()
				}
			})
		}
	}
	callers.Wait()
	r.record.Took = time.Since(r.began)
	slices.SortFunc(r.record.Answers, func(a, b FleetAnswer) int { return cmp.Compare(a.Sent, b.Sent) })
	return r.record, r.err
}

// fleetRun is a running Fleet.
type fleetRun struct {
	fleet  *Fleet
	began  time.Time
	client http.Client

	mu     sync.Mutex
	record FleetRecord
	err    error // the first error
}

func (r *fleetRun) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = cmp.Or(r.err, err)
}

// call runs one caller, starting with question first.
func (r *fleetRun) call(ctx context.Context, node, first int) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for i := range r.fleet.Each {
		select {
		case <-next.C:
			next.Reset(r.fleet.Pause)
		case <-ctx.Done():
			return nil
		}
		a := FleetAnswer{Node: node, Question: (first + i) % len(r.fleet.Questions), Sent: time.Since(r.began)}
		answered, err := r.ask(ctx, &a)
		if err != nil {
			return err
		}
		a.Answered = time.Since(r.began)
		r.mu.Lock()
		if answered {
			r.record.Answers = append(r.record.Answers, a)
		} else if ctx.Err() == nil {
			r.record.Lost++
			node = (node + 1) % len(r.fleet.Nodes)
		}
		r.mu.Unlock()
	}
	return nil
}

// ask sends a request; answered is false if no node answered.
func (r *fleetRun) ask(ctx context.Context, a *FleetAnswer) (answered bool, err error) {
	url := r.fleet.Nodes[a.Node] + "/v1/check"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(r.fleet.Questions[a.Question]))
	if err != nil {
		return false, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return false, nil //nolint:nilerr // a node that has ended is no error of the run
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, nil //nolint:nilerr // the same, during its answer
	}
	var told struct{ Allowed, Degraded bool }
	if err := json.Unmarshal(body, &told); err != nil || resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s answered %s: %s", url, resp.Status, body)
	}
	a.Allowed, a.Degraded = told.Allowed, told.Degraded
	return true, nil
}

// Of returns the answers for which keep returns true.
func (r *FleetRecord) Of(keep func(*FleetAnswer) bool) []FleetAnswer {
	var kept []FleetAnswer
	for i := range r.Answers {
		if keep(&r.Answers[i]) {
			kept = append(kept, r.Answers[i])
		}
	}
	return kept
}

// AllowedOf counts the answers that allow the request.
func AllowedOf(answers []FleetAnswer) (n int) {
	for i := range answers {
		if answers[i].Allowed {
			n++
		}
	}
	return n
}

// PercentileOf returns the longest time of the quickest percent of the answers; 0 if there are none.
func PercentileOf(answers []FleetAnswer, percent int) time.Duration {
	took := make([]time.Duration, len(answers))
	for i, a := range answers {
		took[i] = a.Answered - a.Sent
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(len(took)*percent/100, len(took)-1)]
}

// FleetWindow is a time interval with the number of requests that passed in it.
type FleetWindow struct {
	Length time.Duration
	Passed int
	May    float64 // how many may pass in a window of that length
}

// Over returns by how many requests the window exceeds the limit; negative if it does not.
func (w FleetWindow) Over() float64 { return float64(w.Passed) - w.May }

// WorstOf returns the window that exceeds the limit, burst + rate a second, by the most. A request
// counts in a window if it was sent and answered inside it, so that an uncertain time of its
// decision never counts against the nodes.
func WorstOf(answers []FleetAnswer, burst, rate float64) FleetWindow {
	var passed []Passed
	for _, a := range answers {
		if a.Allowed {
			passed = append(passed, Passed{Cost: 1, Sent: a.Sent, Answered: a.Answered})
		}
	}
	if len(passed) == 0 {
		return FleetWindow{May: burst}
	}
	w := WorstWindow(passed, burst, rate)
	return FleetWindow{time.Duration(math.Round(w.Length * float64(time.Second))), int(w.Passed), w.May}
}
