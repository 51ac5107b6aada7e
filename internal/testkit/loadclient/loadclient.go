package loadclient

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// patience is how long a caller waits for an answer.
const patience = 30 * time.Second

// Plan is who asks whom, for what and how often.
type Plan struct {
	// Nodes are the services, as http://HOST:PORT. A caller whose node does not answer
	// goes on at the next one.
	Nodes []string

	// Callers is how many ask each node at first. Each waits for its answer before it
	// asks again.
	Callers int

	// Pause is the time from one question of a caller to its next; 0: none. A caller
	// that is late asks at once, and leaves out what it has missed.
	Pause time.Duration

	// Each is how many questions a caller asks at most. It keeps a run bounded where
	// nothing else does, so it has no default: 0 asks nothing.
	Each int

	// Questions are bodies of POST /v1/check. Each caller puts them in turn, and begins as
	// far from the others as can be.
	Questions []string
}

// Question returns the body that asks for units of one descriptor of one entry.
func Question(domain, key, value string, cost int) string {
	return fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":%q}],"cost":%d}]}`, domain, key, value, cost)
}

// Answer is what a caller was told, and when: since the run began, by the caller's clock.
type Answer struct {
	Sent, Answered    time.Duration
	Node, Question    int // which of the plan
	Allowed, Degraded bool
}

// Record is what all callers of a run were told.
type Record struct {
	Answers []Answer      // in the order of Sent
	Lost    int           // questions without an answer: what became of them nobody knows
	Took    time.Duration // the whole run
}

// Run lets all callers ask until they have asked enough, or the context ends. An answer
// that is no decision ends the run with an error.
func (p *Plan) Run(ctx context.Context) (Record, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// A service closes a connection that says nothing in its first five seconds; one that was
	// dialed and not needed after all must not be asked on just then.
	transport := &http.Transport{MaxIdleConnsPerHost: p.Callers * len(p.Nodes), IdleConnTimeout: 2 * time.Second}
	defer transport.CloseIdleConnections()
	r := run{plan: p, began: time.Now(), client: http.Client{Transport: transport, Timeout: patience}}
	var callers sync.WaitGroup
	for node := range p.Nodes {
		for i := range p.Callers {
			callers.Go(func() {
				if err := r.call(ctx, node, (node*p.Callers+i)*len(p.Questions)/(len(p.Nodes)*p.Callers)); err != nil {
					r.failed(err)
					stop()
				}
			})
		}
	}
	callers.Wait()
	r.record.Took = time.Since(r.began)
	slices.SortFunc(r.record.Answers, func(a, b Answer) int { return cmp.Compare(a.Sent, b.Sent) })
	return r.record, r.err
}

// run is a plan in the course of being carried out.
type run struct {
	plan   *Plan
	began  time.Time
	client http.Client

	mu     sync.Mutex
	record Record
	err    error // the first
}

func (r *run) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = cmp.Or(r.err, err)
}

// call is the life of one caller, who begins with a question.
func (r *run) call(ctx context.Context, node, first int) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for i := range r.plan.Each {
		select {
		case <-next.C:
			next.Reset(r.plan.Pause)
		case <-ctx.Done():
			return nil
		}
		a := Answer{Node: node, Question: (first + i) % len(r.plan.Questions), Sent: time.Since(r.began)}
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
			node = (node + 1) % len(r.plan.Nodes)
		}
		r.mu.Unlock()
	}
	return nil
}

// ask puts a question; false where nobody answered.
func (r *run) ask(ctx context.Context, a *Answer) (answered bool, err error) {
	url := r.plan.Nodes[a.Node] + "/v1/check"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(r.plan.Questions[a.Question]))
	if err != nil {
		return false, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return false, nil //nolint:nilerr // a node that is gone is no fault of the run
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, nil //nolint:nilerr // the same, in the middle of its answer
	}
	var told struct{ Allowed, Degraded bool }
	if err := json.Unmarshal(body, &told); err != nil || resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s answered %s: %s", url, resp.Status, body)
	}
	a.Allowed, a.Degraded = told.Allowed, told.Degraded
	return true, nil
}

// Of returns the answers of a record for which keep says so.
func (r *Record) Of(keep func(*Answer) bool) []Answer {
	var kept []Answer
	for i := range r.Answers {
		if keep(&r.Answers[i]) {
			kept = append(kept, r.Answers[i])
		}
	}
	return kept
}

// Allowed counts the answers that let something pass.
func Allowed(answers []Answer) (n int) {
	for i := range answers {
		if answers[i].Allowed {
			n++
		}
	}
	return n
}

// Percentile returns what so many of a hundred answers took at most; 0 of none.
func Percentile(answers []Answer, percent int) time.Duration {
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

// Window is a time, and what passed in it.
type Window struct {
	Length time.Duration
	Passed int
	May    float64 // how much may pass in a window of that length
}

// Over is by how much too many passed; below 0 where there was room.
func (w Window) Over() float64 { return float64(w.Passed) - w.May }

// Worst returns the window in which the most passed, compared to what may: burst + rate a
// second. What passed counts in a window if it was sent and answered inside it, so that
// no doubt about when it was decided counts against the nodes.
func Worst(answers []Answer, burst, rate float64) Window {
	passed := slices.DeleteFunc(slices.Clone(answers), func(a Answer) bool { return !a.Allowed })
	slices.SortFunc(passed, func(a, b Answer) int { return cmp.Compare(a.Answered, b.Answered) })
	worst := Window{May: burst}
	for _, first := range passed {
		w := Window{}
		for i := range passed {
			if passed[i].Sent < first.Sent {
				continue
			}
			w.Passed++
			w.Length = passed[i].Answered - first.Sent
			if w.May = burst + rate*w.Length.Seconds(); w.Over() > worst.Over() {
				worst = w
			}
		}
	}
	return worst
}
