package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stint"
	"stint/replay/accesslog"
	"stint/replay/whatif"
)

// webRules returns rules that count clients, with a limit.
func webRules(limit string) string {
	return "domain: web\ndescriptors:\n  - {key: remote_address, rate_limit: {" + limit + "}}\n" +
		"  - {key: path, rate_limit: {requests: 1000, per: 1m, name: paths}}\n" +
		"http: {rate_limits: [{actions: [{remote_address: {}}]}, {actions: [{path: {}}]}]}\n"
}

// clientsLog writes a log in which client i sends i requests within a minute, for i from 1 to n.
func clientsLog(t *testing.T, n int) accesslog.Input {
	t.Helper()
	var log strings.Builder
	for second := range n {
		for i := second + 1; i <= n; i++ {
			fmt.Fprintf(&log, "192.0.2.%d - - [17/May/2015:10:00:%02d +0000] \"GET /%d HTTP/1.1\" 200 5\n", i, second, i%3)
		}
	}
	file := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(file, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	input, err := accesslog.File(file)
	if err != nil {
		t.Fatal(err)
	}
	return input
}

func plan(t *testing.T, before, after string, input accesslog.Input) *whatif.Plan {
	t.Helper()
	p, err := Plan(context.Background(), parseRules(t, before), parseRules(t, after), Options{Reorder: DefaultReorder}, []accesslog.Input{input})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPlanCounts has clients of 1 to 20 requests a minute; each set of rules denies those above its
// limit.
func TestPlanCounts(t *testing.T) {
	input := clientsLog(t, 20)
	p := plan(t, webRules("requests: 15, per: 1m"), webRules("requests: 10, per: 1m"), input)
	if p.Clients != 20 || p.NewlyDenied != 5 || p.Freed != 0 || p.DeniedBefore != 15 || p.DeniedAfter != 55 || p.Parsed != 210 {
		t.Errorf("%+v", p)
	}
	if len(p.Rules) != 1 {
		t.Fatalf("%+v", p.Rules)
	}
	c := p.Rules[0]
	want := whatif.Change{
		Domain: "web", Rule: "web/remote_address", What: "changed", Before: "fixed_window 15 per 1m", After: "fixed_window 10 per 1m",
		Keys: 20, DeniedBefore: 15, DeniedAfter: 55, KeysBefore: 5, KeysAfter: 10, NewlyDenied: 5,
	}
	if slices.Equal(c.Examples, []whatif.Example{{Key: "192.0.2.15", Denied: 5}, {Key: "192.0.2.14", Denied: 4}, {Key: "192.0.2.13", Denied: 3}, {Key: "192.0.2.12", Denied: 2}, {Key: "192.0.2.11", Denied: 1}}) {
		c.Examples = nil
	}
	if fmt.Sprintf("%+v", c) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v, want %+v", c, want)
	}
	back := plan(t, webRules("requests: 10, per: 1m"), webRules("requests: 15, per: 1m"), input)
	if back.NewlyDenied != 0 || back.Freed != 5 || back.Rules[0].Freed != 5 || len(back.Rules[0].Examples) != 0 {
		t.Errorf("%+v", back)
	}
}

// TestPlanOfOtherRules adds and removes rules, and changes words that deny nobody here.
func TestPlanOfOtherRules(t *testing.T) {
	input := clientsLog(t, 20)
	before := webRules("requests: 15, per: 1m, name: old")
	p := plan(t, before, webRules("requests: 15, per: 1m, name: new"), input)
	if len(p.Rules) != 2 || p.Rules[0].What != "added" || p.Rules[0].Rule != "new" || p.Rules[0].NewlyDenied != 5 ||
		p.Rules[1].What != "removed" || p.Rules[1].Rule != "old" || p.Rules[1].Freed != 5 {
		t.Errorf("%+v", p.Rules)
	}
	if p.NewlyDenied != 0 || p.Freed != 0 {
		t.Errorf("another name denies other clients: %+v", p)
	}
	if p := plan(t, before, before, input); len(p.Rules) != 0 || !strings.HasPrefix(p.Headline(), "The change affects none of 210 requests") {
		t.Errorf("%+v", p)
	}
	p = plan(t, before, strings.Replace(before, "requests: 1000", "requests: 1001", 1), input)
	if len(p.Rules) != 1 || p.Rules[0].Rule != "paths" || p.Rules[0].Keys != 3 || p.Rules[0].NewlyDenied != 0 {
		t.Errorf("%+v", p.Rules)
	}
}

// TestPlanOfGrowingLog appends to the log between the two replays: only what was there at the start
// counts.
func TestPlanOfGrowingLog(t *testing.T) {
	input := clientsLog(t, 5)
	open, opened := input.Open, 0
	input.Open = func() (io.ReadCloser, error) {
		if opened++; opened == 2 {
			log, err := os.OpenFile(input.Name, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return nil, err
			}
			fmt.Fprintln(log, `192.0.2.99 - - [17/May/2015:10:00:30 +0000] "GET / HTTP/1.1" 200 5`)
			if err := log.Close(); err != nil {
				return nil, err
			}
		}
		return open()
	}
	p := plan(t, webRules("requests: 3, per: 1m"), webRules("requests: 2, per: 1m"), input)
	if opened != 2 || p.Parsed != 15 || p.Clients != 5 || p.NewlyDenied != 1 {
		t.Errorf("opened %d times: %+v", opened, p)
	}
}

// TestPlanUnreadable: too few lines are an error.
func TestPlanUnreadable(t *testing.T) {
	table := parseRules(t, webRules("requests: 3, per: 1m"))
	_, err := Plan(context.Background(), table, table, Options{}, []accesslog.Input{accesslog.Reader("none", strings.NewReader("what\n"))})
	if _, ok := errors.AsType[*UnreadableError](err); !ok {
		t.Error(err)
	}
}

// TestSweepOfReplay compares the point of the limit as it stands with the counts of the report, and
// each answer with a replay of that limit.
func TestSweepOfReplay(t *testing.T) {
	for _, algorithm := range Algorithms {
		run := func(requests int64, sweep bool) *Report {
			limit, err := ParseLimit(fmt.Sprintf("%d/min by ip", requests), algorithm, 0)
			if err != nil {
				t.Fatal(err)
			}
			return replayFile(t, "../examples/logs/shop.log", Options{Limit: limit, Reorder: DefaultReorder, Algorithms: []stint.Algorithm{}, Sweep: sweep})
		}
		checkCurve(t, run(20, true), run)
	}
}

// checkCurve checks the only curve of a report. run replays another number of requests.
func checkCurve(t *testing.T, report *Report, run func(requests int64, sweep bool) *Report) {
	t.Helper()
	if len(report.Sweep) != 1 {
		t.Fatalf("%d curves", len(report.Sweep))
	}
	c := report.Sweep[0]
	now := slices.IndexFunc(c.Points, func(p whatif.Point) bool { return p.Requests == c.Requests })
	if now < 0 || c.Points[now].Denied != report.Denied || c.Points[now].DeniedKeys != report.DeniedClients || c.Keys != report.DistinctClients {
		t.Errorf("%s: %+v, but %d requests of %d clients were denied", c.Algorithm, c, report.Denied, report.DeniedClients)
	}
	for _, a := range c.Answers {
		if again := run(a.Requests, false); again.Denied != a.Denied || again.DeniedClients != a.DeniedKeys {
			t.Errorf("%s: %+v, but a replay of this limit denies %d of %d", c.Algorithm, a, again.Denied, again.DeniedClients)
		}
		if again := run(max(1, a.Requests-1), false); a.Requests > 1 && float64(again.DeniedClients) <= a.Share*float64(c.Keys) {
			t.Errorf("%s: %+v, but a smaller limit is enough: %d are denied", c.Algorithm, a, again.DeniedClients)
		}
	}
}

// TestSweepOfRules has a curve for each rule that a line asked.
func TestSweepOfRules(t *testing.T) {
	run := func(requests int64, sweep bool) *Report {
		text := fmt.Sprintf("domain: web\ndescriptors:\n  - {key: remote_address, rate_limit: {requests: %d, per: 1m, algorithm: token_bucket, burst: %d}}\n"+
			"  - {key: unasked, rate_limit: {requests: 1, per: 1s}}\n"+
			"http: {rate_limits: [{actions: [{remote_address: {}}]}]}\n", requests, (requests+1)/2)
		return replayFile(t, "../examples/logs/shop.log", Options{Rules: parseRules(t, text), Reorder: DefaultReorder, Sweep: sweep})
	}
	report := run(20, true)
	checkCurve(t, report, run)
	if report.Sweep[0].Rule != "web/remote_address" {
		t.Errorf("a curve of %s", report.Sweep[0].Rule)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"would deny at most 1 % of the keys", "Limit per 1m  Denied keys", "now\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("nothing says %q:\n%s", want, text.String())
		}
	}
}

// TestSweepOfResponses: a limit that counts responses is charged by the status of the line.
func TestSweepOfResponses(t *testing.T) {
	var log strings.Builder
	for i, status := range []int{401, 200, 401, 200, 200, 401} {
		fmt.Fprintf(&log, "192.0.2.1 - - [17/May/2015:10:00:%02d +0000] \"GET / HTTP/1.1\" %d 5\n", i, status)
	}
	table := parseRules(t, webRules("requests: 2, per: 1m, count: responses, statuses: [401]"))
	report, err := Run(context.Background(), Options{Rules: table, Sweep: true}, []accesslog.Input{accesslog.Reader("log", strings.NewReader(log.String()))})
	if err != nil {
		t.Fatal(err)
	}
	c := report.Sweep[0]
	if c.Takes != 3 || len(c.Answers) == 0 || c.Answers[0].Requests != 3 {
		t.Errorf("%+v", c)
	}
}

// TestPlanInterrupted ends a plan while it replays the old rules, and while it replays the new ones: it
// says what the old rules deny, and that it compares nothing.
func TestPlanInterrupted(t *testing.T) {
	input := clientsLog(t, 100)
	for _, part := range []int64{0, 1} {
		ctx, cancel := context.WithCancel(t.Context())
		opts := Options{Reorder: DefaultReorder, Progress: func(read, total int64) {
			if 2*read > part*total {
				cancel()
			}
		}}
		p, err := Plan(ctx, parseRules(t, webRules("requests: 15, per: 1m")), parseRules(t, webRules("requests: 10, per: 1m")), opts, []accesslog.Input{input})
		if !errors.Is(err, context.Canceled) || p == nil {
			t.Fatalf("it returned %v, %v", p, err)
		}
		var words strings.Builder
		if err := p.WriteText(&words, 100); err != nil {
			t.Fatal(err)
		}
		if !p.Interrupted || p.NewlyDenied != 0 || len(p.Rules) != 0 || part == 1 && p.DeniedBefore == 0 || len(p.Notes) == 0 ||
			!strings.Contains(words.String(), "nothing is compared") || !strings.Contains(words.String(), "- Interrupted: ") {
			t.Errorf("%d: the plan is %+v: %s", part, p, words.String())
		}
	}
}
