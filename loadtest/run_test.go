package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stint"
	"stint/internal/system"
)

// scripted is a target that answers by a function.
type scripted struct {
	ask    func(ctx context.Context, n int64, key int, cost uint32) (Answer, error)
	calls  atomic.Int64
	closed atomic.Int64
}

func (t *scripted) Caller() Caller { return scriptedCaller{t} }
func (t *scripted) Close() error   { return nil }

type scriptedCaller struct{ *scripted }

func (c scriptedCaller) Ask(ctx context.Context, key int, cost uint32) (Answer, error) {
	return c.ask(ctx, c.calls.Add(1), key, cost)
}

func (c scriptedCaller) Close() error {
	c.closed.Add(1)
	return nil
}

func run1(t *testing.T, ctx context.Context, p Plan) *Report { //nolint:revive // a test has its own order
	t.Helper()
	if p.Keys.Count == 0 {
		p.Keys.Count = 1
	}
	if p.Duration == 0 {
		p.Duration = time.Minute
	}
	if p.Timeout == 0 {
		p.Timeout = time.Minute
	}
	p.Cost = max(p.Cost, 1)
	r, err := p.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunCounts(t *testing.T) {
	target := &scripted{ask: func(_ context.Context, n int64, key int, cost uint32) (Answer, error) {
		if key != 0 || cost != 3 {
			t.Errorf("asked for %d of key %d", cost, key)
		}
		switch n % 4 {
		case 0:
			return Answer{}, errors.New("broken\n")
		case 1:
			return Answer{Allowed: true, Degraded: true}, nil
		}
		return Answer{}, nil
	}}
	limit := stint.MustLimit(stint.Spec{Requests: 1, Per: time.Hour})
	r := run1(t, t.Context(), Plan{Target: target, Workers: 3, Count: 400, Cost: 3, Limit: limit, ClockError: -1})
	if r.Calls != 400 || r.Allowed != 100 || r.Denied != 200 || r.Errors != 100 || r.Degraded != 100 || r.Mode != "closed loop" {
		t.Errorf("calls %d, allowed %d, denied %d, errors %d, degraded %d", r.Calls, r.Allowed, r.Denied, r.Errors, r.Degraded)
	}
	if r.ErrorKinds[`broken\x0a`] != 100 {
		t.Errorf("kinds %v", r.ErrorKinds)
	}
	if r.Service.Count != 300 || target.closed.Load() != 3 {
		t.Errorf("%d times, %d callers closed", r.Service.Count, target.closed.Load())
	}
	if !r.Limit.Exceeded || r.Limit.Checked != 100 || r.Limit.Worst.Passed != 300 {
		t.Errorf("300 units of 1 an hour: %+v", r.Limit)
	}
}

// Without any answer a run ends early.
func TestRunGivesUp(t *testing.T) {
	target := &scripted{ask: func(context.Context, int64, int, uint32) (Answer, error) { return Answer{}, errors.New("refused") }}
	r := run1(t, t.Context(), Plan{Target: target, Workers: 4, Rate: 100_000})
	if r.Errors < hopeless || r.Errors > 2*hopeless || r.Interrupted || r.Response.Count > r.Unsent {
		t.Errorf("%+v", r)
	}
}

// An interrupted run returns what is known, and gives up what is in flight.
func TestRunInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	target := &scripted{ask: func(ctx context.Context, n int64, _ int, _ uint32) (Answer, error) {
		if n > 10 {
			interrupt()
			<-ctx.Done()
			return Answer{}, ctx.Err()
		}
		return Answer{Allowed: true}, nil
	}}
	r := run1(t, ctx, Plan{Target: target, Workers: 1})
	if !r.Interrupted || r.Allowed != 10 || r.Errors != 0 {
		t.Errorf("interrupted %v, allowed %d, errors %d", r.Interrupted, r.Allowed, r.Errors)
	}
}

// A call without an answer ends with its timeout, and counts with it.
func TestRunTimeout(t *testing.T) {
	const timeout = 5 * time.Millisecond
	target := &scripted{ask: func(ctx context.Context, n int64, _ int, _ uint32) (Answer, error) {
		if n > 1 {
			return Answer{Allowed: true}, nil
		}
		<-ctx.Done()
		return Answer{}, errors.New("the transport's own words")
	}}
	r := run1(t, t.Context(), Plan{Target: target, Workers: 1, Count: 2, Timeout: timeout})
	if r.ErrorKinds["no answer in time"] != 1 || r.Service.Max < timeout.Microseconds() || r.Service.Count != 2 {
		t.Errorf("kinds %v, longest %d us of %d", r.ErrorKinds, r.Service.Max, r.Service.Count)
	}
}

// stalled is a context that keeps whoever asks for its deadline waiting, as a busy machine may while a call begins.
type stalled struct {
	context.Context
	wait time.Duration
}

func (c stalled) Deadline() (deadline time.Time, ok bool) {
	time.Sleep(c.wait) // in the bubble's time
	return c.Context.Deadline()
}

// The time of a call counts from before its timeout begins, so none that timed out is shorter than that.
func TestRunTimeoutOfBusyMachine(t *testing.T) {
	const timeout = 5 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		target := &scripted{ask: func(ctx context.Context, _ int64, _ int, _ uint32) (Answer, error) {
			<-ctx.Done()
			return Answer{}, ctx.Err()
		}}
		r := run1(t, stalled{t.Context(), 2 * timeout}, Plan{Target: target, Workers: 1, Count: 1, Timeout: timeout})
		if r.ErrorKinds["no answer in time"] != 1 || r.Service.Max < timeout.Microseconds() {
			t.Errorf("kinds %v, longest %d us", r.ErrorKinds, r.Service.Max)
		}
	})
}

// While the service stalls, the calls of an open loop become due all the same, and their times count from then: all but the first
// wait for the only worker, and those of the end are never sent.
func TestOpenLoopCountsStalls(t *testing.T) {
	const duration = 200 * time.Millisecond
	target := &scripted{ask: func(ctx context.Context, _ int64, _ int, _ uint32) (Answer, error) {
		system.Wait(ctx, duration+time.Millisecond)
		return Answer{Allowed: true}, ctx.Err()
	}}
	r := run1(t, t.Context(), Plan{Target: target, Workers: 1, Rate: 1000, Duration: duration})
	if r.Calls > 1 || r.Calls+r.Unsent != 200 {
		t.Fatalf("%d calls, %d unsent; want 1 and 199", r.Calls, r.Unsent)
	}
	// The middle one was due at 100 ms, and had waited 100 ms at least.
	if r.Response.P50 < 100_000 || r.Service.Count != r.Calls || r.Response.Count != 200 {
		t.Errorf("p50 %d us of %d, %d sent", r.Response.P50, r.Response.Count, r.Service.Count)
	}
}

func TestProgress(t *testing.T) {
	shown := make(chan Progress, 1)
	target := &scripted{ask: func(ctx context.Context, n int64, _ int, _ uint32) (Answer, error) {
		if n == 2 {
			<-shown // the run goes on until it was shown
		}
		return Answer{}, ctx.Err()
	}}
	r := run1(t, t.Context(), Plan{Target: target, Workers: 1, Count: 2, ProgressEvery: time.Millisecond, Progress: func(p Progress) {
		select {
		case shown <- p:
		default:
		}
	}})
	if r.Denied != 2 {
		t.Errorf("denied %d", r.Denied)
	}
}

func TestPlanIsBounded(t *testing.T) {
	good := Plan{Target: &scripted{}, Workers: 1, Duration: time.Second, Timeout: time.Second, Keys: Keys{Count: 2}}
	for name, spoil := range map[string]func(*Plan){
		"target":   func(p *Plan) { p.Target = nil },
		"rate":     func(p *Plan) { p.Rate = MaxRate + 1 },
		"no rate":  func(p *Plan) { p.Rate = math.NaN() },
		"workers":  func(p *Plan) { p.Workers = 0 },
		"duration": func(p *Plan) { p.Duration = MaxDuration + 1 },
		"count":    func(p *Plan) { p.Count = MaxCount + 1 },
		"timeout":  func(p *Plan) { p.Timeout = 0 },
		"keys":     func(p *Plan) { p.Keys.Count = MaxKeys + 1 },
		"exponent": func(p *Plan) { p.Keys.Spread = Zipf },
		"share":    func(p *Plan) { p.Keys = Keys{2, Hot, 0, 1.1} },
		"spread":   func(p *Plan) { p.Keys.Spread = 9 },
		"progress": func(p *Plan) { p.Progress = func(Progress) {} },
		"limit":    func(p *Plan) { p.Limit = stint.MustLimit(stint.Spec{Algorithm: stint.Unlimited}) },
		"calendar": func(p *Plan) { p.Limit = stint.MustLimit(stint.Spec{Requests: 1, Calendar: stint.Month}) },
	} {
		p := good
		if spoil(&p); p.check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := good.check(); err != nil {
		t.Error(err)
	}
}

func TestSchedule(t *testing.T) {
	for _, poisson := range []bool{false, true} {
		s := newSchedule(&Plan{Rate: 1000, Poisson: poisson, Count: 2000, Duration: time.Minute, Keys: Keys{Count: 1}}, time.Now())
		var waited time.Time
		s.sleepTill = func(_ context.Context, at time.Time) { waited = at }
		last := time.Duration(0)
		for n := range 2000 {
			call, ok := s.take(t.Context())
			if !ok || call.due < last || !waited.Equal(s.began.Add(call.due)) {
				t.Fatalf("call %d is due at %v, after %v", n, call.due, last)
			}
			if want := time.Duration(n) * time.Millisecond; !poisson && call.due != want {
				t.Fatalf("call %d is due at %v, want %v", n, call.due, want)
			}
			last = call.due
		}
		if _, ok := s.take(t.Context()); ok {
			t.Error("a call more than there may be")
		}
		if poisson && (last < 1800*time.Millisecond || last > 2200*time.Millisecond) {
			t.Errorf("2000 calls in %v", last)
		}
	}
}

// No call of an open loop is planned after the end, however early the last one was taken.
func TestScheduleEnds(t *testing.T) {
	s := newSchedule(&Plan{Rate: 1000, Duration: 10 * time.Millisecond, Keys: Keys{Count: 1}}, time.Now().Add(time.Hour))
	s.sleepTill = func(context.Context, time.Time) {}
	n := 0
	for ok := true; ok && n < 20; n++ {
		_, ok = s.take(t.Context())
	}
	if n != 11 {
		t.Errorf("%d calls in 10 ms, one each", n-1)
	}
}

func TestKeys(t *testing.T) {
	counts := func(k Keys) map[int]int {
		choose, n := k.chooser(rand.New(rand.NewPCG(1, 2))), map[int]int{}
		for range 10_000 {
			n[choose()]++
		}
		return n
	}
	if n := counts(Keys{Count: 4}); len(n) != 4 || n[0] < 2300 || n[0] > 2700 {
		t.Errorf("uniform: %v", n)
	}
	if n := counts(Keys{Count: 100, Spread: Zipf, Exponent: 1.5}); n[0] < 3*n[2] || n[0] > 6000 {
		t.Errorf("zipf: %d of key 0, %d of key 2", n[0], n[2])
	}
	if n := counts(Keys{Count: 3, Spread: Hot, Share: 0.9}); n[0] < 8900 || n[0] > 9100 || n[2] < 400 {
		t.Errorf("hot: %v", n)
	}
	for _, s := range []Spread{Uniform, Zipf, Hot} {
		if back, err := ParseSpread(s.String()); err != nil || back != s {
			t.Errorf("%v: %v %v", s, back, err)
		}
	}
	if _, err := ParseSpread("flat"); err == nil {
		t.Error("flat is a spread")
	}
}

// A worker that waits 100 ms and calls each millisecond otherwise omits 99 calls, which would have waited 99 ms, 98 ms, and so on.
func TestCorrected(t *testing.T) {
	measured := newTimes()
	measured.add(time.Millisecond, 900)
	measured.add(100*time.Millisecond, 1)
	c := measured.corrected(time.Millisecond)
	if n := c.TotalCount(); n < 999 || n > 1001 {
		t.Errorf("%d times, want 1000", n)
	}
	if p95 := c.at(0.95); p95 < 49*time.Millisecond || p95 > 51*time.Millisecond {
		t.Errorf("p95 %v, want 50ms", p95)
	}
	if p95 := measured.at(0.95); p95 > 1001*time.Microsecond {
		t.Errorf("measured p95 %v", p95)
	}
	// However long the wait, the work is bounded, and the count right.
	far := newTimes()
	far.add(time.Minute, 1)
	if n := far.corrected(10 * time.Microsecond).TotalCount(); n < 5_900_000 || n > 6_100_000 {
		t.Errorf("%d times, want 6 million", n)
	}
}

func TestReport(t *testing.T) {
	target := &scripted{ask: func(_ context.Context, n int64, _ int, _ uint32) (Answer, error) {
		if n == 7 {
			return Answer{}, errors.New("<b>broken</b>")
		}
		return Answer{Allowed: n%2 == 0}, nil
	}}
	limit := stint.MustLimit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 100, Per: time.Hour})
	r := run1(t, t.Context(), Plan{Target: target, Workers: 1, Count: 100, Limit: limit, Rate: MaxRate})
	r.Target = "http://127.0.0.1:1/<x>"
	var text, page, data bytes.Buffer
	if err := errors.Join(r.WriteText(&text), r.WriteHTML(&page), r.WriteJSON(&data)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"open loop of 1e+06 per second, 1 worker, 1 key\n", "\nallowed    50, denied 49\nerrors     1\n           1: <b>broken</b>\n",
		"\nfrom plan  p50 ", "\nfrom send  p50 ", "\nlimit      sliding_log 100 per 1h0m0s: kept by 50 allowed calls (100 in any window of 1h0m0s)\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text has no %q:\n%s", want, &text)
		}
	}
	for _, want := range []string{"http://127.0.0.1:1/&lt;x&gt;", "&lt;b&gt;broken&lt;/b&gt;", `<polyline class="c1" points="`, "99 %"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, never := range []string{"<script", "http://www", "ZgotmplZ", "NaN", "Inf"} {
		if strings.Contains(page.String(), never) {
			t.Errorf("the page has %q", never)
		}
	}
	var back Report
	if err := json.Unmarshal(data.Bytes(), &back); err != nil || back.Allowed != 50 || len(back.Response.Curve) < 5 || back.Limit.Exceeded {
		t.Errorf("%v: %+v", err, back)
	}
}

// A report without any answer has no curve, and is a page all the same.
func TestReportOfNothing(t *testing.T) {
	r := &Report{Mode: "closed loop"}
	var text, page bytes.Buffer
	if err := errors.Join(r.WriteText(&text), r.WriteHTML(&page)); err != nil || strings.Contains(page.String(), "<svg") {
		t.Errorf("%v\n%s", err, &page)
	}
}

func TestMicro(t *testing.T) {
	for us, want := range map[int64]string{0: "0s", 7: "7µs", 999: "999µs", 1234: "1.23ms", 56_789: "56.8ms", 1_234_567: "1.23s", 70_000_000: "1m10s"} {
		if got := Micro(us); got != want {
			t.Errorf("%d: %s, want %s", us, got, want)
		}
	}
}
