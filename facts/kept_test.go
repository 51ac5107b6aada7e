package facts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"stint/internal/testkit"
	"stint/rule/rulefile"
)

// Counts, history and marks are kept over a restart; a rule that comes back later gets its facts back.
func TestRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.facts")
	w := newWorld(t, threeRules, Options{State: file})
	for range 90 { // minutes
		for range 7 {
			w.ask(1, "user", "42")
		}
		w.ask(1, "soft", "s")
		w.now = w.now.Add(time.Minute)
		w.facts.Flush()
	}
	w.facts.Mark("reload", "rules abc")
	before, minutes, tens := w.rule("api/user"), w.facts.History(Of{Rule: "api/user"}, Minute), w.facts.History(Of{}, TenMinutes)
	if err := w.facts.Close(); err != nil {
		t.Fatal(err)
	}
	if len(minutes.Points) != 90 || minutes.Points[3] != (Point{noon.Add(3 * time.Minute), Counts{Allowed: 5, Denied: 2}}) {
		t.Fatalf("%d points, %+v", len(minutes.Points), minutes.Points[:4])
	}
	if len(tens.Points) != 9 || tens.Points[0].Counts != (Counts{Allowed: 60, Denied: 20}) {
		t.Fatalf("%+v", tens.Points)
	}
	now := w.now
	f, err := New(Options{Node: "a", State: file, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	f.Reloaded(nil, true)
	f.Reloaded(table(t, threeRules), false)
	after := f.Summary(context.Background()).Rules[0]
	if after.Counts != before.Counts || !after.First.Equal(before.First) || !after.Last.Equal(before.Last) || after.Peaks.Periods != before.Peaks.Periods {
		t.Errorf("%+v\nbefore: %+v", after, before)
	}
	again := f.History(Of{Rule: "api/user"}, Minute)
	if fmt.Sprint(again.Points) != fmt.Sprint(minutes.Points) {
		t.Errorf("%v\nbefore: %v", again.Points, minutes.Points)
	}
	if got := fmt.Sprint(f.History(Of{}, TenMinutes).Points); got != fmt.Sprint(tens.Points) {
		t.Errorf("%v\nbefore: %v", got, tens.Points)
	}
	var what []string
	for _, m := range again.Marks {
		what = append(what, m.What)
	}
	if got := strings.Join(what, " "); got != "start reload start reload" {
		t.Errorf("marks %s", got)
	}
	body, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(body), "42\"") {
		t.Errorf("the state file has a key: %v", err)
	}
}

// All rules of a large table get their facts back, and a reload drops most of those that it removes.
func TestRestartOfManyRules(t *testing.T) {
	var yaml strings.Builder
	yaml.WriteString("domain: api\ndescriptors:\n")
	for i := range 3 * maxRetired {
		fmt.Fprintf(&yaml, "  - {key: k%d, rate_limit: {requests: 5, per: 1m}}\n", i)
	}
	o := Options{State: filepath.Join(t.TempDir(), "facts")}
	w := newWorld(t, yaml.String(), o)
	for i := range 3 * maxRetired {
		w.ask(1, fmt.Sprintf("k%d", i), "42")
	}
	counted := func() (n int) {
		for _, r := range w.facts.Summary(context.Background()).Rules {
			n += int(r.Allowed)
		}
		return n
	}
	for range 2 {
		if err := w.facts.Close(); err != nil {
			t.Fatal(err)
		}
		if w = newWorld(t, yaml.String(), o); counted() != 3*maxRetired {
			t.Fatalf("%d of %d counts after a restart", counted(), 3*maxRetired)
		}
	}
	w.facts.Reloaded(table(t, threeRules), false)
	w.facts.Reloaded(table(t, yaml.String()), false)
	if counted() != maxRetired {
		t.Errorf("%d counts of rules that were away, want %d", counted(), maxRetired)
	}
}

// The history has all of a minute that restarts divided.
func TestRestartWithinAMinute(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.facts")
	now := noon
	for start := range 3 {
		w := newWorld(t, threeRules, Options{State: file})
		w.now = now
		for range 2 + start {
			w.ask(1, "user", "42")
		}
		if start == 2 {
			w.now = now.Add(time.Minute)
			w.facts.Flush()
			for _, step := range []time.Duration{Minute, TenMinutes} {
				if got := w.facts.History(Of{Rule: "api/user"}, step).Points; len(got) != 1 || got[0].Counts.Allowed+got[0].Counts.Denied != 9 {
					t.Errorf("by %s: %+v", step, got)
				}
			}
		}
		now = w.now.Add(time.Second)
		if err := w.facts.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The history has what a rule counted in the minute in which it was removed, also after a restart.
func TestHistoryOfRemoved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.facts")
	w := newWorld(t, threeRules, Options{State: file})
	w.ask(1, "user", "42")
	w.facts.Reloaded(table(t, "domain: api\n"), false)
	if err := w.facts.Close(); err != nil {
		t.Fatal(err)
	}
	points := newWorld(t, threeRules, Options{State: file}).facts.History(Of{Rule: "api/user"}, Minute).Points
	if len(points) != 1 || points[0] != (Point{noon, Counts{Allowed: 1}}) {
		t.Errorf("%+v", points)
	}
}

// A rule is watched from when it was added or came back; a short stop of the service does not change that, a long
// one does.
func TestSince(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.facts")
	w := newWorld(t, threeRules, Options{State: file})
	since := func(want time.Time) {
		t.Helper()
		if got := w.rule("api/user").Since; !got.Equal(want) {
			t.Errorf("since %s, want %s", got, want)
		}
	}
	since(noon)
	w.now = noon.Add(time.Hour)
	w.facts.Reloaded(table(t, threeRules), false)
	since(noon)
	w.facts.Reloaded(table(t, "domain: api\n"), false)
	w.now = noon.Add(2 * time.Hour)
	w.facts.Reloaded(table(t, threeRules), false)
	since(noon.Add(2 * time.Hour))
	for _, stop := range []time.Duration{time.Minute, 2 * maxPause} {
		stopped := w.now
		if err := w.facts.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := New(Options{State: file, Now: func() time.Time { return stopped.Add(stop) }})
		if err != nil {
			t.Fatal(err)
		}
		f.Reloaded(table(t, threeRules), true)
		w.facts = f
		want := noon.Add(2 * time.Hour)
		if stop > maxPause {
			want = stopped.Add(stop)
		}
		since(want)
		ended, end := context.WithCancel(t.Context())
		end()
		f.Run(ended)
	}
}

// What a candidate would have denied is kept over a restart. Under another secret keys count anew; another
// candidate begins with nothing.
func TestCandidateIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.facts")
	secret := []byte("one")
	w := newWorld(t, fmt.Sprintf(triedRules, 8), Options{State: file, Secret: secret})
	for range 10 {
		w.ask(1, "user", "busy")
	}
	w.ask(0, "user", "busy")
	if err := w.facts.Close(); err != nil {
		t.Fatal(err)
	}
	want := Candidate{
		Limit: "fixed_window 8 per 1m", Now: Counts{Allowed: 5, Denied: 5, Looks: 1}, Then: Counts{Allowed: 8, Denied: 2, Looks: 1},
		KeysDeniedNow: 1, KeysDeniedThen: 1,
	}
	again := newWorld(t, fmt.Sprintf(triedRules, 8), Options{State: file, Secret: secret})
	if c := again.rule("api/user").Candidate; *c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	for range 9 {
		again.ask(1, "user", "busy")
	}
	if c := again.rule("api/user").Candidate; c.Now.Denied != 9 || c.KeysDeniedNow != 1 {
		t.Errorf("after the restart: %+v", c)
	}
	for name, other := range map[string]struct {
		requests     int
		secret       string
		denied, keys uint64
	}{"another secret": {8, "two", 5, 0}, "another candidate": {9, "one", 0, 0}} {
		f, err := New(Options{State: file, Secret: []byte(other.secret)})
		if err != nil {
			t.Fatal(err)
		}
		f.Reloaded(table(t, fmt.Sprintf(triedRules, other.requests)), true)
		if c := f.Summary(context.Background()).Rules[0].Candidate; c.Now.Denied != other.denied || c.KeysDeniedNow != other.keys {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A damaged state file is an error that names the file, wherever it is damaged.
func TestDamagedState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.facts")
	w := newWorld(t, threeRules, Options{State: file})
	w.ask(1, "user", "42")
	w.now = w.now.Add(time.Minute)
	if err := w.facts.Close(); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cut": string(body[:len(body)/2]), "empty": "", "version": strings.Replace(string(body), `"version":1`, `"version":2`, 1),
		"points": strings.Replace(string(body), `"steps":1`, `"steps":2`, 1),
	} {
		if text == string(body) {
			t.Fatalf("%s: nothing is damaged in %s", name, body)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var damaged *StateError
		if _, err := New(Options{State: file}); !errors.As(err, &damaged) || damaged.File != file {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// minutes lets n minutes pass, with one request in each.
func (w *world) minutes(n int) {
	for range n {
		w.ask(1, "user", "42")
		w.now = w.now.Add(time.Minute)
		w.facts.Flush()
	}
}

// After the clock was set back the history goes on, and drops what is in the future.
func TestHistoryClockBack(t *testing.T) {
	w := newWorld(t, threeRules, Options{})
	w.minutes(5)
	w.now = w.now.Add(-24 * time.Hour)
	w.facts.Flush()
	w.minutes(5)
	points := w.facts.History(Of{}, Minute).Points
	if len(points) < 4 || points[len(points)-1].At.After(w.now) {
		t.Errorf("%v at %v", points, w.now)
	}
}

// A clock that ran ahead for a while, within one piece of the stored history, costs only what was counted meanwhile.
func TestHistoryClockAhead(t *testing.T) {
	w := newWorld(t, threeRules, Options{})
	w.minutes(5)
	w.now = w.now.Add(35 * time.Minute)
	w.minutes(2)
	w.now = w.now.Add(-37 * time.Minute)
	w.minutes(20)
	for _, step := range []time.Duration{Minute, TenMinutes} {
		sum := uint64(0)
		for _, p := range w.facts.History(Of{}, step).Points {
			sum += p.Allowed
			if p.At.After(w.now) {
				t.Errorf("%v has %v, and it is %v", step, p.At, w.now)
			}
		}
		if sum < 23 {
			t.Errorf("%v has %d of 27 requests, of which at most 4 were in the future", step, sum)
		}
	}
}

// A steady client at half of its limit, one that is denied, and one that comes in bursts are measured as they are.
func TestPeaks(t *testing.T) {
	const rules = "domain: api\ndescriptors:\n  - key: user\n    rate_limit: {per: 1m, requests: 60}\n"
	w := newWorld(t, rules, Options{})
	for range 60 * 20 { // seconds
		if w.now.Second()%2 == 0 {
			w.ask(1, "user", "half")
		}
		w.ask(2, "user", "twice")
		w.now = w.now.Add(time.Second)
		if w.now.Second() == 0 {
			w.facts.Flush()
		}
	}
	w.now = w.now.Add(generation)
	w.facts.Flush()
	p := w.rule("api/user").Peaks
	if p.Sampled != 2 || p.Periods != 40 || p.DeniedKeys != 1 {
		t.Errorf("%+v", p)
	}
	if math.Abs(p.P50-0.5) > 0.03 || math.Abs(p.P99-2) > 0.1 || math.Abs(p.Excess-2) > 0.1 {
		t.Errorf("p50 %.2f p99 %.2f excess %.2f", p.P50, p.P99, p.Excess)
	}
	early, late := uint64(0), uint64(0)
	for i, n := range p.Denials {
		if i < 5 {
			early += n
		} else {
			late += n
		}
	}
	if early != 0 || late != 20*30 {
		t.Errorf("denials by tenths %v", p.Denials)
	}
	if p.Retries < 20*30-1 || p.Retries > 20*30 || p.Passed < 19 || p.Passed > 20 {
		t.Errorf("%d retries, %d passed", p.Retries, p.Passed)
	}
	if p.Bursts != 0 {
		t.Errorf("%d bursts of steady clients", p.Bursts)
	}
	for range 70 {
		w.ask(1, "user", "burst")
	}
	w.ask(1, "user", "another")
	if p = w.rule("api/user").Peaks; p.Bursts != 10 || math.Abs(p.Largest-70.0/71) > 0.01 {
		t.Errorf("%d bursts, want 10; the busiest key has %.2f", p.Bursts, p.Largest)
	}
	changed := strings.Replace(rules, "60}", "61}", 1)
	w.facts.Reloaded(table(t, changed), false)
	if p = w.rule("api/user").Peaks; p.Periods != 0 {
		t.Errorf("after a change of the numbers: %+v", p)
	}
}

// The log has the first denial of each key in a minute with its request, and then one in so many.
func TestDenials(t *testing.T) {
	w := newWorld(t, threeRules, Options{Denials: DenialOptions{Every: 10}})
	for i := range 5 + 1 + 25 {
		w.askAs(fmt.Sprintf("r%d", i), 1, "user", "ann")
		w.facts.Flush()
	}
	w.askAs("q", 1, "user", "bob") // passes
	for range 2 {
		w.ask(1, "quiet", "q") // nobody is denied
	}
	lines := w.facts.Denials(100, nil)
	if len(lines) != 3 || lines[2].RequestID != "r5" || lines[2].Sampled != 1 || lines[1].Sampled != 10 || lines[0].RequestID != "r25" {
		t.Fatalf("%+v", lines)
	}
	first := lines[2]
	if first.Rule != "api/user" || first.Domain != "api" || first.Reason != "rate_limited" || first.Limit != 5 || first.RetryAfter != time.Minute || !first.At.Equal(noon) {
		t.Errorf("%+v", first)
	}
	if top := w.facts.Top(context.Background(), Of{}, ByDenied, 1); top[0].ID != first.Key {
		t.Errorf("the log has the key %s, the list %s", first.Key, top[0].ID)
	}
	w.now = w.now.Add(30 * time.Second) // the window goes on, and the minute of the log
	if found := w.facts.Denials(1, func(d *Denial) bool { return d.RequestID == "r5" }); len(found) != 1 {
		t.Errorf("found %+v", found)
	}
	w.askAs("a bad\nid", 9, "soft", "s")
	w.askAs("a bad\nid", 9, "soft", "s")
	if line := w.facts.Denials(1, nil)[0]; line.RequestID != "" || line.Rule != "api/soft" {
		t.Errorf("%+v", line)
	}
}

// A ban and a list are logged too, under their names.
func TestRefusals(t *testing.T) {
	const rules = "domain: api\ndeny:\n  - {name: bad clients, key: user, values: [eve]}\ndescriptors:\n  - key: user\n    rate_limit: {per: 1m, requests: 5}\n"
	if _, err := rulefile.Parse(rulefile.Source{Name: "r.yaml", Data: []byte(rules)}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, rules, Options{})
	for range 3 {
		w.ask(1, "user", "eve")
	}
	lines := w.facts.Denials(10, nil)
	if len(lines) != 1 || lines[0].Rule != "bad clients" || lines[0].Domain != "api" || lines[0].Key != "" || lines[0].Reason != "denied" || lines[0].RetryAfter != -1 {
		t.Errorf("%+v", lines)
	}
}

// No output has a value of a key that is not shown.
func TestNoClearValues(t *testing.T) {
	var e exchange
	dir := t.TempDir()
	w := newWorld(t, strings.Replace(threeRules, "show: true", "show: false", 1), Options{Exchange: &e, State: filepath.Join(dir, "facts"), Denials: DenialOptions{File: filepath.Join(dir, "denials")}})
	const secret = "hunter2-is-a-secret"
	for range 20 {
		w.askAs("r", 1, "user", secret)
	}
	w.facts.publish(context.Background())
	outputs := []any{
		w.facts.Summary(context.Background()), w.facts.Top(context.Background(), Of{}, ByDenied, 10), w.facts.History(Of{}, Minute), w.facts.Denials(10, nil),
	}
	if err := w.facts.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"facts", "denials"} {
		body, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(body) == 0 {
			t.Fatalf("%s: %d bytes, %v", name, len(body), err)
		}
		outputs = append(outputs, string(body))
	}
	rep, err := decodeReport(e.all["a"])
	if err != nil || len(rep.Rules) == 0 || len(rep.Rules[0].Top[denied]) == 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	for _, out := range append(outputs, rep) {
		if text, _ := json.Marshal(out); strings.Contains(string(text), secret) {
			t.Errorf("%T has the value: %s", out, text)
		}
	}
}

// What is published is of one moment: what is counted later does not change it, nor races with its encoding.
func TestReportIsDetached(t *testing.T) {
	w := newWorld(t, threeRules, Options{})
	periods := func() {
		for range 3 {
			w.ask(1, "user", "42")
			w.now = w.now.Add(2 * time.Minute)
		}
		w.facts.Flush()
	}
	periods()
	w.facts.mu.Lock()
	rep := w.facts.reportLocked(withKeys)
	w.facts.mu.Unlock()
	before, err := rep.encode()
	testkit.Must(t, err)
	periods()
	after, err := rep.encode()
	testkit.Must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("a report has changed after it was made")
	}
	var published sync.WaitGroup
	published.Go(func() {
		for range 20 {
			merge(rep, nil, withPeaks)
			if _, err := rep.encode(); err != nil {
				t.Error(err)
			}
		}
	})
	periods()
	published.Wait()
}
