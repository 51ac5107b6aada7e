package app

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"stint/app/settings"
	"stint/internal/testkit"
	"stint/internal/testkit/programs"
)

// The recorded answers of envoyproxy/ratelimit, see testdata/envoy/README.md.
const (
	recordRules = "testdata/envoy/rules.yaml"
	recordFile  = "testdata/envoy/record.gz"
)

var record = flag.String("tally.record", "", "write the record of the server at this `address`, HOST:PORT, which has the rules of testdata/envoy")

// question is one request of the record.
type question struct {
	hits        uint32
	descriptors []string // see programs.RLSClient.AskFor
}

// String returns the request in the form of the record.
func (q question) String() string {
	return fmt.Sprintf("%d %s", q.hits, strings.Join(q.descriptors, " "))
}

// ask sends the request, and returns the answer in the form of the record: the overall code, and
// for each descriptor its code, the remaining units, and the limit.
func (q question) ask(ctx context.Context, c *programs.RLSClient) (string, error) {
	before := time.Now()
	a, err := c.AskFor(ctx, "record", q.hits, q.descriptors...)
	if err != nil {
		return "", err
	}
	code := map[bool]string{false: "OK", true: "OVER"}
	text := code[a.Over]
	for i := range a.Statuses {
		s := &a.Statuses[i]
		text += fmt.Sprintf("; %s %d", code[s.Over], s.Remaining)
		if s.Unit == "" {
			continue
		}
		text += strings.TrimSuffix(fmt.Sprintf(" of %d/%s %s", s.Limit, s.Unit, s.Name), " ")
		if err := resets(s, before, time.Now()); err != nil {
			return "", err
		}
	}
	return text, nil
}

// lengths are the units of the record, in seconds. Each ends with a day.
var lengths = map[string]int64{"DAY": 86400, "WEEK": 7 * 86400, "MONTH": 30 * 86400, "YEAR": 365 * 86400}

// resets returns an error if the reset of a status, answered between two times, is not the end of
// its window.
func resets(s *programs.RLSStatus, from, to time.Time) error {
	unit := lengths[s.Unit]
	if unit == 0 {
		return fmt.Errorf("a limit per %s", s.Unit)
	}
	most, least := unit-from.Unix()%unit, unit-to.Unix()%unit
	if got := int64(s.Reset / time.Second); most >= least && (got < least || got > most) {
		return fmt.Errorf("the window of a limit per %s ends in %v, not in %d s", s.Unit, s.Reset, most)
	}
	return nil
}

// questions returns n requests, always the same. Their values change over time, so that at any time
// some counts are new, some used up, and some over.
func questions(n int) []question {
	r := rand.New(rand.NewPCG(13, 14))
	list := make([]question, n)
	for i := range list {
		q := &list[i]
		if r.IntN(4) == 0 {
			q.hits = uint32(r.IntN(5))
		}
		for range 1 + r.IntN(5) {
			d, most := describe(r, i/120)
			if r.IntN(3) == 0 { // often one, otherwise up to one more than the limit
				d += fmt.Sprintf("+%d", r.IntN(most+2))
			}
			if strings.HasPrefix(d, "own") {
				d += fmt.Sprintf("@%d/DAY", most)
			}
			q.descriptors = append(q.descriptors, d)
		}
		if r.IntN(12) == 0 && len(q.descriptors) < 5 {
			q.descriptors = append(q.descriptors, q.descriptors[0])
		}
	}
	return list
}

// describe returns a descriptor, and how many its limit lets pass.
func describe(r *rand.Rand, era int) (descriptor string, most int) {
	v := fmt.Sprintf("%d.%d", era, r.IntN(4))
	switch r.IntN(24) {
	case 0, 1, 2:
		return "user=" + v, 5
	case 3:
		return "user=root", 40
	case 4:
		return "user=" + v + ",path=/" + v, 3
	case 5:
		return "user=" + v + ",path=/login", 1
	case 6:
		return "user=" + v + ",path=/login,method=POST", 2
	case 7:
		return "user=" + v + ",path=/api/" + v + "/items", 7
	case 8:
		return "user=" + fmt.Sprint(era) + ",path=/img/" + v, 9
	case 9:
		return "user=" + v + ",path=/login,method=GET", 2 // deeper than any rule
	case 10:
		return "open=" + v, 2
	case 11:
		return "open=listed", 2
	case 12:
		return "free=" + v, 5
	case 13, 14:
		return "seen=" + v, 3
	case 15:
		return "pool=small", 12
	case 16:
		return "pool=" + v, 4
	case 17:
		return "banned=" + v, 0
	case 18:
		return "vip=" + v, 6
	case 19:
		return "boss=" + v, 8
	case 20:
		return "much=" + v, 1 << 20
	case 21:
		return "one=" + v, 1
	case 22:
		n := r.IntN(7)
		return fmt.Sprintf("own=%s.%d", v, n), n
	}
	return []string{"deep=a,deep=" + v + ",deep=c", "deep=a", "none=" + v, "user="}[r.IntN(4)], 3
}

// writeRecord sends all requests to a server and writes the record.
func writeRecord(t *testing.T, address string) {
	var text bytes.Buffer
	w, err := gzip.NewWriterLevel(&text, gzip.BestCompression)
	testkit.Must(t, err)
	c := programs.DialRLS(t, address, nil)
	for _, q := range questions(10_000) {
		answer, err := q.ask(t.Context(), c)
		testkit.Must(t, err)
		fmt.Fprintf(w, "%s\t%s\n", q, answer)
	}
	testkit.Must(t, w.Close())
	testkit.Must(t, os.WriteFile(recordFile, text.Bytes(), 0o644))
}

// readRecord returns the first n requests and answers of the record.
func readRecord(t *testing.T, n int) (asked []question, answers []string) {
	t.Helper()
	file, err := os.Open(recordFile)
	testkit.Must(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	testkit.Must(t, err)
	lines := bufio.NewScanner(unzipped)
	for len(asked) < n && lines.Scan() {
		line, answer, _ := strings.Cut(lines.Text(), "\t")
		words := strings.Fields(line)
		q := question{descriptors: words[1:]}
		_, err := fmt.Sscan(words[0], &q.hits)
		testkit.Must(t, err)
		asked, answers = append(asked, q), append(answers, answer)
	}
	if lines.Err() != nil || len(asked) < n {
		t.Fatalf("%d lines of %d: %v", len(asked), n, lines.Err())
	}
	return asked, answers
}

// With envoy-env the service gives the answers of envoyproxy/ratelimit, in memory and in Redis.
func TestTally(t *testing.T) {
	if *record != "" {
		writeRecord(t, *record)
		return
	}
	n := 10_000
	if testing.Short() {
		n = 1_000
	}
	for name, store := range map[string]func(testing.TB) string{
		"memory": func(testing.TB) string { return "memory" },
		"redis":  func(t testing.TB) string { return testkit.StartRedis(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			today := func() int64 { return time.Now().Unix() / 86400 }
			for {
				began, s := today(), startEnvoy(t, recordRules, store(t))
				wrong := replayRecord(t, s, n)
				if today() != began { // windows of days have ended meanwhile
					continue
				}
				if len(wrong) > 0 {
					t.Errorf("%d of %d answers differ, the first:\n%s", len(wrong), n, strings.Join(wrong[:min(len(wrong), 5)], "\n"))
				}
				return
			}
		})
	}
}

// replayRecord sends the requests of the record and returns the answers that differ.
func replayRecord(t *testing.T, s *service, n int) (wrong []string) {
	asked, answers := readRecord(t, n)
	c := programs.DialRLS(t, s.Addr("grpc"), nil)
	for i, q := range asked {
		got, err := q.ask(t.Context(), c)
		testkit.Must(t, err)
		if got != answers[i] {
			wrong = append(wrong, fmt.Sprintf("line %d: %s\n  there %s\n  here  %s", i+1, q, answers[i], got))
		}
	}
	return wrong
}

// startEnvoy runs a service with envoy-env, a file of rules and a store.
func startEnvoy(t *testing.T, rules, store string, flags ...settings.Given) *service {
	t.Helper()
	given := append([]settings.Given{
		{Name: "envoy-env", Value: "true", Where: "--envoy-env"}, {Name: "rules", Value: rules, Where: "--rules"}, {Name: "store", Value: store, Where: "--store"}, {Name: "store-timeout", Value: "1m", Where: "--store-timeout"},
	}, flags...)
	config, err := settings.Configure(given, []string{"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_PORT=0", "USE_STATSD=false"})
	testkit.Must(t, err)
	config.Output, config.RESP = io.Discard, ""
	a, err := New(config)
	testkit.Must(t, err)
	s := &service{App: a, t: t}
	testkit.Must(t, s.Start(t.Context()))
	t.Cleanup(func() { s.Stop(context.Background()) })
	return s
}
