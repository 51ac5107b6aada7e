package replay

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/facts/advice"
	"stint/internal/testkit"
	"stint/replay/accesslog"
)

// made is a made trace: requests at milliseconds of a day.
type made struct{ lines []madeLine }

type madeLine struct {
	at        time.Duration
	who, path string
}

func (m *made) add(at time.Duration, who int, path string) {
	m.lines = append(m.lines, madeLine{at, fmt.Sprintf("10.%d.%d.%d", who>>16, who>>8&255, who&255), path})
}

// input returns the trace as a log in JSON, in order of time.
func (m *made) input() accesslog.Input {
	slices.SortStableFunc(m.lines, func(a, b madeLine) int { return cmp.Compare(a.at, b.at) })
	begin := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	var log strings.Builder
	for _, l := range m.lines {
		fmt.Fprintf(&log, "{\"time\":%q,\"ip\":%q,\"method\":\"GET\",\"path\":%q,\"status\":200}\n", begin.Add(l.at).Format("2006-01-02T15:04:05.000Z07:00"), l.who, l.path)
	}
	return accesslog.Reader("made", strings.NewReader(log.String()))
}

// The traces, each of some hours of traffic. A key of address counts.

// steady has clients of which each asks up to most times a minute at random times, during hours. Of
// greedy ones each asks the given number.
func steady(hours, clients, most, greedy, wants int) *made {
	r, m := rand.New(rand.NewPCG(3, 4)), new(made)
	for minute := range hours * 60 {
		for who := range clients {
			n := most/2 + r.IntN(most/2+1)
			switch {
			case who < greedy && (minute+who)%3 == 0:
				n = wants
			case who < greedy || (minute+who)%20 != 0: // most are away
				continue
			}
			for range n {
				m.add(time.Duration(minute)*time.Minute+time.Duration(r.IntN(60_000))*time.Millisecond, who, "/a")
			}
		}
	}
	return m
}

// sessions has clients which are there for four minutes now and then, and ask 32 times a minute.
func sessions() *made {
	m := new(made)
	for who := range 60 {
		for begin := who; begin < 180; begin += 45 {
			for i := range 4 * 32 {
				m.add(time.Duration(begin)*time.Minute+time.Duration(i)*1875*time.Millisecond, who, "/a")
			}
		}
	}
	return m
}

// pages has clients that load a page of 15 requests at once every few minutes.
func pages() *made {
	m := new(made)
	for who := range 60 {
		for begin := who % 7; begin < 180; begin += 7 {
			for i := range 15 {
				m.add(time.Duration(begin)*time.Minute+time.Duration(who)*time.Second+time.Duration(30*i)*time.Millisecond, who, "/a")
			}
		}
	}
	return m
}

// day has clients that ask evenly over twenty hours: the first thirty of two hundred 13 times, others 7 times.
func day() *made {
	m := new(made)
	for who := range 200 {
		n := 7
		if who < 30 {
			n = 13
		}
		for i := range n {
			m.add(time.Duration(i)*20*time.Hour/time.Duration(n)+time.Duration(who)*time.Second, who, "/a")
		}
	}
	return m
}

// returning has clients that ask once a minute.
func returning() *made {
	m := new(made)
	for minute := range 180 {
		for who := range 60 {
			m.add(time.Duration(minute)*time.Minute+time.Duration(who)*time.Second, who, "/a")
		}
	}
	return m
}

// onePath has many paths, of which the first has nearly all requests, by many clients.
func onePath() *made {
	r, m := rand.New(rand.NewPCG(5, 6)), new(made)
	for second := range 2 * 3600 {
		path := "/"
		if second%60 == 0 {
			path = fmt.Sprintf("/%d", second/60)
		}
		m.add(time.Duration(second)*time.Second, r.IntN(100), path)
	}
	return m
}

// newPaths has a new path in every request.
func newPaths() *made {
	r, m := rand.New(rand.NewPCG(7, 8)), new(made)
	for second := range 2 * 3600 {
		m.add(time.Duration(second)*time.Second, r.IntN(60), fmt.Sprintf("/item/%d", second))
	}
	return m
}

// quiet has clients that use little of what they may, for days.
func quiet(days int) *made {
	m := new(made)
	for hour := range days * 24 {
		for who := range 60 {
			for i := range 1 + who%5 {
				m.add(time.Duration(hour)*time.Hour+time.Duration(who*20+i)*time.Second, who, "/a")
			}
		}
	}
	return m
}

// advised replays a trace and returns the advice.
func advised(t *testing.T, opts Options, m *made) []advice.Advice {
	t.Helper()
	opts.Reorder, opts.Advise = DefaultReorder, true
	opts.Algorithms = []stint.Algorithm{}
	if opts.Limit != nil {
		opts.AdviseBy = parseRules(t, opts.Limit.RuleText())
	}
	report, err := Run(context.Background(), opts, []accesslog.Input{m.input()})
	if err != nil {
		t.Fatal(err)
	}
	if report.Advice == nil {
		t.Fatal("the report has no list of advice")
	}
	return report.Advice
}

// traces are made so that one cause is true, or none ("").
var traces = map[string]struct {
	limit     string
	algorithm stint.Algorithm
	burst     uint32
	trace     func() *made
	cause     advice.Cause
	low, high float64 // the number
	says      string
}{
	"too tight":        {"20/min by ip", stint.FixedWindow, 0, func() *made { return steady(3, 200, 14, 20, 27) }, advice.TooTight, 0.09, 0.11, "10.0 % of its keys, and half of these ask for 1.3 times the limit"},
	"too tight bucket": {"20/min by ip", stint.TokenBucket, 20, func() *made { return steady(3, 200, 14, 20, 45) }, advice.TooTight, 0.09, 0.11, "of its keys, and "},
	"too tight by day": {"10/d by ip", stint.FixedWindow, 0, day, advice.TooTight, 0.15, 0.15, "15.0 % of its keys"},
	"too loose":        {"1000/min by ip", stint.FixedWindow, 0, func() *made { return quiet(8) }, advice.TooLoose, 190, 210, "for 7 days its limit was"},
	"edge bursts":      {"30/min by ip", stint.FixedWindow, 0, sessions, advice.EdgeBursts, 0.9, 1, "fall in the first or last tenth of 1m"},
	"burst too small":  {"60/min by ip", stint.TokenBucket, 5, pages, advice.BurstTooSmall, 0.9, 1, "within a second of the start of a burst"},
	"one key":          {"30/min by path", stint.FixedWindow, 0, onePath, advice.WrongKey, 0.95, 1, "of its requests are of one key"},
	"new keys":         {"30/min by path", stint.FixedWindow, 0, newPaths, advice.WrongKey, 1, 1, "of a key that never came before"},

	"healthy":            {"20/min by ip", stint.FixedWindow, 0, func() *made { return steady(3, 200, 14, 0, 0) }, "", 0, 0, ""},
	"one greedy client":  {"20/min by ip", stint.FixedWindow, 0, func() *made { return steady(3, 200, 14, 1, 100) }, "", 0, 0, ""},
	"one greedy, bucket": {"20/min by ip", stint.TokenBucket, 20, func() *made { return steady(3, 200, 14, 1, 60) }, "", 0, 0, ""},
	"keys that return":   {"30/min by ip", stint.FixedWindow, 0, returning, "", 0, 0, ""},
	"healthy for days":   {"8/min by ip", stint.FixedWindow, 0, func() *made { return quiet(8) }, "", 0, 0, ""},
	"loose for six days": {"1000/min by ip", stint.FixedWindow, 0, func() *made { return quiet(6) }, "", 0, 0, ""},
	"few keys":           {"10/min by ip", stint.FixedWindow, 0, func() *made { return steady(3, 40, 14, 4, 27) }, "", 0, 0, ""},
	"less than an hour":  {"20/min by ip", stint.FixedWindow, 0, func() *made { return steady(1, 200, 14, 20, 27) }, "", 0, 0, ""},
}

// TestAdviceOfTraces checks that the advice names the cause and the number, and that it is silent on
// healthy traffic, for a limit and for the same limit as a rule.
func TestAdviceOfTraces(t *testing.T) {
	for name, c := range traces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit, err := ParseLimit(c.limit, c.algorithm, c.burst)
			if err != nil {
				t.Fatal(err)
			}
			for _, opts := range []Options{{Limit: limit}, {Rules: parseRules(t, limit.RuleText())}} {
				got := advised(t, opts, c.trace())
				if c.cause == "" {
					if len(got) != 0 {
						t.Errorf("%+v", got)
					}
					continue
				}
				if len(got) != 1 || got[0].Cause != c.cause || got[0].Rule != c.limit || got[0].Number < c.low || got[0].Number > c.high || got[0].AtLeast ||
					!strings.Contains(got[0].Text, c.says) || !strings.HasPrefix(got[0].Text, c.limit+" ") || strings.Count(got[0].Text, ". ") != 0 {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}

// TestAdviceMends parses the lines of each advice as a rule file, and replays the trace by them: the
// cause is gone, and there is no other.
func TestAdviceMends(t *testing.T) {
	testkit.OneGoroutine(t)
	for name, c := range traces {
		if c.cause == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit, err := ParseLimit(c.limit, c.algorithm, c.burst)
			if err != nil {
				t.Fatal(err)
			}
			for i, opts := range []Options{{Limit: limit}, {Rules: parseRules(t, limit.RuleText())}} {
				given := advised(t, opts, c.trace())
				if len(given) == 0 {
					t.Fatal("there is no advice")
				}
				lines := given[0].YAML
				if !strings.Contains(lines, "http:") { // of a rule, without the rest of its file
					_, http, _ := strings.Cut(limit.RuleText(), "http:")
					lines += "http:" + http
				}
				if again := advised(t, Options{Rules: parseRules(t, lines)}, c.trace()); len(again) != 0 {
					t.Errorf("options %d: by these lines:\n%s\n%+v", i, lines, again)
				}
			}
		})
	}
}

// TestAdviceIsShown: in the text, the JSON and the page.
func TestAdviceIsShown(t *testing.T) {
	limit := testLimit(t, "20/min by ip")
	opts := Options{Limit: limit, AdviseBy: parseRules(t, limit.RuleText()), Advise: true, Reorder: DefaultReorder, Algorithms: []stint.Algorithm{}}
	report, err := Run(context.Background(), opts, []accesslog.Input{traces["too tight"].trace().input()})
	if err != nil {
		t.Fatal(err)
	}
	var text, json, page strings.Builder
	for err := range map[error]bool{report.WriteText(&text): true, report.WriteJSON(&json): true, report.WriteHTML(&page): true} {
		if err != nil {
			t.Error(err)
		}
	}
	const command = `stint replay --limit "28/1m by ip" --algorithm fixed_window access.log`
	for _, want := range []string{"20/min by ip is too tight: ", "  Change it to:\n    domain: log\n", "See what the change does to an access log:\n    " + command} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text has no %q:\n%s", want, text.String())
		}
	}
	for _, want := range []string{`"cause": "too_tight"`, `"at_least": false`, `"yaml": "domain: log\n`, `"candidate": ""`} {
		if !strings.Contains(json.String(), want) {
			t.Errorf("the JSON has no %s:\n%s", want, json.String())
		}
	}
	for _, want := range []string{"<h2>Advice</h2>\n<p>20/min by ip is too tight: ", "<pre>domain: log\n"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	report.Advice = []advice.Advice{}
	page.Reset()
	if err := report.WriteHTML(&page); err != nil || !strings.Contains(page.String(), "<h2>Advice</h2>\n<p>No advice: ") {
		t.Errorf("%v: the page does not say that there is no advice", err)
	}
}

// TestRuleText: each limit as a rule decides a log as the limit does.
func TestRuleText(t *testing.T) {
	for text, algorithm := range map[string]stint.Algorithm{
		"5/min by ip": stint.FixedWindow, "5/15m by ip+method": stint.SlidingLog, "100/h by method": stint.TokenBucket, "20/min by agent": stint.SlidingWindow,
		"500/d": stint.FixedWindow, "3/s by ip+agent": stint.LeakyBucket,
	} {
		limit, err := ParseLimit(text, algorithm, 0)
		if err != nil {
			t.Fatal(err)
		}
		counts := func(opts Options) RuleCount {
			opts.Reorder, opts.Algorithms = DefaultReorder, []stint.Algorithm{}
			return replayFile(t, "testdata/apache_access.log.gz", opts).Rules[0]
		}
		if own, ruled := counts(Options{Limit: limit}), counts(Options{Rules: parseRules(t, limit.RuleText())}); own != ruled || own.Denied == 0 {
			t.Errorf("%s: %+v as a limit, %+v as a rule", text, own, ruled)
		}
	}
	if text := testLimit(t, "5/min by user").RuleText(); text != "" {
		t.Errorf("rules cannot count by the user of a log: %s", text)
	}
}
