package examples

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/replay"
	"stint/replay/accesslog"
)

// sampleLog is half an hour of an invented small shop: people who load a page with its pictures and
// read, a program with a steady rate, one that comes every five minutes, one that sends around the
// turn of each minute, a crawler, and somebody who guesses passwords. All addresses are reserved
// for documentation.
type sampleLog struct {
	random *rand.Rand
	lines  []sampleLine
}

type sampleLine struct {
	at   time.Duration // since the beginning
	text string
}

const sampleTime = 30 * time.Minute

// add adds a line if it is within the half hour.
func (s *sampleLog) add(at time.Duration, client, request string, status int, agent string) {
	if at < 0 || at >= sampleTime {
		return
	}
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	s.lines = append(s.lines, sampleLine{at, fmt.Sprintf("%s - - [%s] \"%s HTTP/1.1\" %d %d \"-\" \"%s\"\n",
		client, start.Add(at).Format("02/Jan/2006:15:04:05 -0700"), request, status, 200+s.random.IntN(20_000), agent)})
}

// between returns a random time.
func (s *sampleLog) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.random.Int64N(int64(to-from)))
}

// people adds people who load a page with five pictures within two seconds, and read it for a
// while.
func (s *sampleLog) people() {
	for client := range 12 {
		address := fmt.Sprintf("198.51.100.%d", 10+client)
		for at := s.between(0, 2*time.Minute); at < sampleTime; at += s.between(15*time.Second, 2*time.Minute) {
			item := s.random.IntN(40)
			s.add(at, address, fmt.Sprintf("GET /items/%d", item), 200, "Mozilla/5.0")
			for picture := range 5 {
				s.add(at+s.between(0, 2*time.Second), address, fmt.Sprintf("GET /img/%d-%d.webp", item, picture), 200, "Mozilla/5.0")
			}
			if s.random.IntN(6) == 0 { // gone for lunch
				at += s.between(3*time.Minute, 10*time.Minute)
			}
		}
	}
}

// programs adds the requests of programs.
func (s *sampleLog) programs() {
	for at := time.Duration(0); at < sampleTime; at += 3 * time.Second {
		s.add(at, "203.0.113.5", "GET /api/orders?since=last", 200, "warehouse/1.4")
	}
	for at := 90 * time.Second; at < sampleTime; at += 5 * time.Minute {
		for n := range 60 {
			s.add(at+time.Duration(n)*100*time.Millisecond, "203.0.113.17", fmt.Sprintf("GET /api/items/%d", n), 200, "export/2")
		}
	}
	for at := time.Minute; at < sampleTime; at += 2 * time.Minute {
		for range 16 {
			s.add(at-s.between(0, 5*time.Second), "203.0.113.40", "POST /api/prices", 204, "prices/0.9")
			s.add(at+s.between(0, 5*time.Second), "203.0.113.40", "POST /api/prices", 204, "prices/0.9")
		}
	}
	for at := 4 * time.Minute; at < 22*time.Minute; at += s.between(200*time.Millisecond, 4*time.Second) {
		s.add(at, "203.0.113.80", fmt.Sprintf("GET /items/%d", s.random.IntN(4000)), 200, "crawler (made up)")
	}
	for at := 11 * time.Minute; at < 19*time.Minute; at += s.between(4*time.Second, 7*time.Second) {
		s.add(at, "203.0.113.99", "POST /login", 401, "curl/8.5.0")
	}
}

// TestSampleLog checks the log that the documents replay, and its purpose: no two algorithms give
// the same result for it.
func TestSampleLog(t *testing.T) {
	s := sampleLog{random: rand.New(rand.NewPCG(16, 1))}
	s.people()
	s.programs()
	slices.SortStableFunc(s.lines, func(a, b sampleLine) int { return cmp.Compare(a.at, b.at) })
	var log bytes.Buffer
	for _, l := range s.lines {
		log.WriteString(l.text)
	}
	testkit.CheckGolden(t, "logs/shop.log", log.String())

	limit, err := replay.ParseLimit("20/min by ip", stint.FixedWindow, 0)
	if err != nil {
		t.Fatal(err)
	}
	input, err := accesslog.File("logs/shop.log")
	if err != nil {
		t.Fatal(err)
	}
	report, err := replay.Run(t.Context(), replay.Options{Limit: limit, Reorder: replay.DefaultReorder}, []accesslog.Input{input})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int64]string{}
	for _, a := range report.Algorithms {
		if other, ok := seen[a.Denied]; ok {
			t.Errorf("%s and %s deny the same %d", a.Algorithm, other, a.Denied)
		}
		seen[a.Denied] = a.Algorithm
	}
	if minutes := report.Last.Sub(report.First).Minutes(); minutes < 29 || report.Unparseable+report.Late > 0 {
		t.Errorf("%v minutes, %+v", minutes, report)
	}
}
