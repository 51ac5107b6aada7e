package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/text"
	"stint/replay/accesslog"
)

// These tests compare the replay with a second implementation that shares no code with it: it
// parses the lines with a regular expression, sorts all of them at once, and computes each
// algorithm from its definition, in exact fractions.

// request is a line as parsed by the second implementation.
type request struct {
	micros                        int64
	ip, user, method, path, agent string
}

var linePattern = regexp.MustCompile(`^(\S+) \S+ (\S+) \[([^]]+)\] "(\S+) ([^ ?]+)(?:\?\S*)? [^"]*" \d+ \S+ "[^"]*" "(.*?)"?$`)

func readRequests(t *testing.T, name string) []request {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	var requests []request
	for s := bufio.NewScanner(r); s.Scan(); {
		m := linePattern.FindStringSubmatch(s.Text())
		if m == nil {
			t.Fatalf("%s: the pattern does not fit %q", name, s.Text())
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[3])
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, request{at.UnixMicro(), m[1], m[2], m[4], m[5], m[6]})
	}
	slices.SortStableFunc(requests, func(a, b request) int { return cmp.Compare(a.micros, b.micros) })
	return requests
}

// exact is an algorithm by its definition. take reports whether a request at time now passes.
type exact interface{ take(now int64) bool }

// exactWindow allows at most `requests` in each period since the epoch.
type exactWindow struct {
	requests, per, window int64
	n                     int64
}

func (w *exactWindow) take(now int64) bool {
	if now/w.per != w.window {
		w.window, w.n = now/w.per, 0
	}
	if w.n == w.requests {
		return false
	}
	w.n++
	return true
}

// exactBucket holds up to burst tokens and gets a token every charge microseconds.
type exactBucket struct {
	burst, charge int64
	last          int64
	tokens        *big.Rat
}

func (b *exactBucket) take(now int64) bool {
	if b.tokens == nil {
		b.tokens = new(big.Rat).SetInt64(b.burst)
	} else {
		b.tokens.Add(b.tokens, big.NewRat(now-b.last, b.charge))
		if most := new(big.Rat).SetInt64(b.burst); b.tokens.Cmp(most) > 0 {
			b.tokens = most
		}
	}
	b.last = now
	one := big.NewRat(1, 1)
	if b.tokens.Cmp(one) < 0 {
		return false
	}
	b.tokens.Sub(b.tokens, one)
	return true
}

// exactQueue serves one request every charge microseconds; at most burst requests wait.
type exactQueue struct {
	burst, charge int64
	served        []int64 // end of service of the waiting and served requests
}

func (q *exactQueue) take(now int64) bool {
	for len(q.served) > 0 && q.served[0] <= now {
		q.served = q.served[1:]
	}
	if int64(len(q.served)) > q.burst {
		return false
	}
	begin := now
	if n := len(q.served); n > 0 {
		begin = q.served[n-1]
	}
	q.served = append(q.served, begin+q.charge)
	return true
}

// exactLog allows at most `requests` within any period.
type exactLog struct {
	requests, per int64
	passed        []int64
}

func (l *exactLog) take(now int64) bool {
	l.passed = slices.DeleteFunc(l.passed, func(at int64) bool { return at <= now-l.per })
	if int64(len(l.passed)) >= l.requests {
		return false
	}
	l.passed = append(l.passed, now)
	return true
}

// exactEstimate weights the previous period by the part of it that is still inside the window.
type exactEstimate struct {
	requests, per int64
	counts        map[int64]int64
}

func (e *exactEstimate) take(now int64) bool {
	block := now / e.per
	share := big.NewRat(e.counts[block-1]*(e.per-now%e.per), e.per)
	whole := new(big.Int).Quo(share.Num(), share.Denom()).Int64()
	if whole+e.counts[block]+1 > e.requests {
		return false
	}
	e.counts[block]++
	return true
}

func newExact(a stint.Algorithm, requests, burst int64, per time.Duration) exact {
	micros := per.Microseconds()
	charge := (micros + requests - 1) / requests // rounded up, as the library does
	switch a {
	case stint.FixedWindow:
		return &exactWindow{requests: requests, per: micros, window: -1}
	case stint.TokenBucket:
		return &exactBucket{burst: cmp.Or(burst, requests), charge: charge}
	case stint.LeakyBucket:
		return &exactQueue{burst: burst, charge: charge}
	case stint.SlidingLog:
		return &exactLog{requests: requests, per: micros}
	}
	return &exactEstimate{requests: requests, per: micros, counts: map[int64]int64{}}
}

var exactLimits = []struct {
	text     string
	requests int64
	per      time.Duration
	burst    int64
	key      func(r request) string // returns "" for a line without limit
}{
	{"100/min by ip", 100, time.Minute, 0, func(r request) string { return r.ip }},
	{"10/min by ip", 10, time.Minute, 0, func(r request) string { return r.ip }},
	{"10/min by ip", 10, time.Minute, 4, func(r request) string { return r.ip }},
	{"1/s", 1, time.Second, 0, nil},
	{"2/1s", 2, time.Second, 3, nil},
	{"7/min", 7, time.Minute, 0, nil},
	{"5/15m by ip+path", 5, 15 * time.Minute, 0, func(r request) string { return r.ip + "+" + r.path }},
	{"1/h by path", 1, time.Hour, 0, func(r request) string { return r.path }},
	{"3/90s by method", 3, 90 * time.Second, 2, func(r request) string { return r.method }},
	{"20/d by agent", 20, 24 * time.Hour, 0, func(r request) string { return strings.TrimPrefix(r.agent, "-") }},
	{"2/10s by user", 2, 10 * time.Second, 0, func(r request) string { return strings.TrimPrefix(r.user, "-") }},
	{"1/250ms by ip", 1, 250 * time.Millisecond, 1, func(r request) string { return r.ip }},
}

// reckon returns the counts of all requests and of each key.
func reckon(requests []request, make func() exact, key func(r request) string) (total ClientCount, byKey map[string]*ClientCount) {
	byKey = map[string]*ClientCount{}
	limits := map[string]exact{}
	for _, r := range requests {
		k, client := "", r.ip
		if key != nil {
			k = key(r)
			client = k
		}
		if key != nil && k == "" {
			total.Allowed++
			continue
		}
		if limits[k] == nil {
			limits[k] = make()
		}
		if byKey[client] == nil {
			byKey[client] = &ClientCount{Key: client}
		}
		if limits[k].take(r.micros) {
			total.Allowed++
			byKey[client].Allowed++
		} else {
			total.Denied++
			byKey[client].Denied++
		}
	}
	return total, byKey
}

// topOf sorts keys as a report does.
func topOf(byKey map[string]*ClientCount) []ClientCount {
	var all []ClientCount
	for _, c := range byKey {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b ClientCount) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Allowed+b.Denied, a.Allowed+a.Denied), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(20, len(all))]
}

// reckoned is the result of the second implementation for one algorithm.
type reckoned struct {
	total   AlgorithmCount
	clients []ClientCount
}

// TestExact compares every count with the second implementation, for all algorithms.
func TestExact(t *testing.T) {
	for _, name := range []string{"testdata/apache_access.log.gz", "testdata/bursts.log"} {
		file := name
		if strings.HasSuffix(name, ".gz") {
			file = beginning(t, name)
		}
		requests := readRequests(t, file)
		for _, l := range exactLimits {
			var want []reckoned
			for _, a := range Algorithms {
				total, byKey := reckon(requests, func() exact { return newExact(a, l.requests, l.burst, l.per) }, l.key)
				want = append(want, reckoned{AlgorithmCount{a.String(), total.Allowed, total.Denied}, topOf(byKey)})
			}
			for i, a := range Algorithms {
				t.Run(fmt.Sprintf("%s/%s/%v", name, l.text, a), func(t *testing.T) {
					limit, err := ParseLimit(l.text, a, uint32(l.burst))
					if err != nil {
						t.Fatal(err)
					}
					report := replayFile(t, file, Options{Limit: limit, Reorder: DefaultReorder})
					if report.Parsed != int64(len(requests)) {
						t.Fatalf("%d parsed of %d", report.Parsed, len(requests))
					}
					checkExact(t, report, want, i)
				})
			}
		}
	}
}

// checkExact compares a report with the expected results; main is the algorithm of the limit.
func checkExact(t *testing.T, report *Report, want []reckoned, main int) {
	t.Helper()
	if report.Late != 0 || report.Unparseable != 0 {
		t.Errorf("%d late, %d unparseable", report.Late, report.Unparseable)
	}
	for i := range want {
		if report.Algorithms[i] != want[i].total {
			t.Errorf("algorithm %+v, want %+v", report.Algorithms[i], want[i].total)
		}
	}
	if total := want[main].total; report.Allowed != total.Allowed || report.Denied != total.Denied {
		t.Errorf("%d allowed, %d denied, want %d, %d", report.Allowed, report.Denied, total.Allowed, total.Denied)
	}
	same := slices.EqualFunc(report.Clients, want[main].clients, func(a, b ClientCount) bool {
		b.Key = text.Visible(b.Key, maxKey)
		return a == b
	})
	if !same {
		t.Errorf("clients\n%+v, want\n%+v", report.Clients, want[main].clients)
	}
}

func replayFile(t testing.TB, name string, opts Options) *Report {
	t.Helper()
	in, err := accesslog.File(name)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(context.Background(), opts, []accesslog.Input{in})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestBurstsFile checks that the generated log is unchanged: bursts and slow traffic of a few
// clients, in two time zones, with each line up to two minutes out of order.
func TestBurstsFile(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	type line struct {
		place int
		text  string
	}
	var lines []line
	paths := []string{"/", "/login", "/search?q=a+b", "/api/v1/items/7", "/img/logo.png"}
	zones := []*time.Location{time.UTC, time.FixedZone("", 2*3600), time.FixedZone("", -(3*3600 + 1800))}
	second := 0
	for range 4000 {
		if random.IntN(4) == 0 {
			second += random.IntN(12)
		}
		if random.IntN(200) == 0 {
			second += 300 + random.IntN(4000)
		}
		client := random.IntN(1 + random.IntN(30))
		at := time.Date(2026, 2, 28, 22, 30, second, 0, time.UTC).In(zones[random.IntN(len(zones))])
		user := "-"
		if client%3 == 0 {
			user = fmt.Sprintf("user%d", client)
		}
		lines = append(lines, line{second + random.IntN(120), fmt.Sprintf(
			"192.0.2.%d - %s [%s] \"%s %s HTTP/1.1\" 200 %d \"-\" \"client/%d\"\n", client, user,
			at.Format("02/Jan/2006:15:04:05 -0700"), []string{"GET", "POST"}[random.IntN(2)], paths[random.IntN(len(paths))],
			random.IntN(9000), client%7)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.place, b.place) })
	var b bytes.Buffer
	for _, l := range lines {
		b.WriteString(l.text)
	}
	testkit.CheckGolden(t, "testdata/bursts.log", b.String())
}
