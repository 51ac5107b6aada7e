package replay

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"stint/internal/testkit"
	"stint/replay/accesslog"
	"stint/replay/whatif"
)

// TestStateTableForgets replays a stream of new clients: only those of the last minutes keep a log,
// and none does after a long time.
func TestStateTableForgets(t *testing.T) {
	opts := Options{Limit: testLimit(t, "5/min by ip"), Reorder: 0}
	d := newLimitDecider(&opts)
	run := &run{decider: d, report: &Report{}}
	run.queue = accesslog.NewQueue(0, d.decide)
	const perSecond = 20
	most := 0
	for i := range 100_000 {
		s := i / perSecond
		line := fmt.Appendf(nil, `10.%d.%d.%d - - [17/May/2015:%02d:%02d:%02d +0000] "GET / HTTP/1.1" 200 5`,
			i>>16, i>>8&255, i&255, s/3600, s/60%60, s%60)
		if err := run.line(line, "test", 1); err != nil {
			t.Fatal(err)
		}
		most = max(most, d.stored.Logs())
	}
	if run.report.Parsed != 100_000 || d.stored.Len() != 100_000 {
		t.Fatalf("%d parsed, %d keys", run.report.Parsed, d.stored.Len())
	}
	// A log matters for at most two minutes and is freed soon after.
	if most > 4*120*perSecond {
		t.Errorf("%d keys had logs at once", most)
	}
	logs := 0
	for key := range uint32(d.stored.Len()) {
		if whatif.HasLog(d.stored.Of(key)) {
			logs++
		}
	}
	if logs != d.stored.Logs() {
		t.Errorf("%d keys have logs, %d are known", logs, d.stored.Logs())
	}
}

// TestStateTableForgetsNothingThatMatters compares the counts of many keys with and without other
// keys whose logs are freed meanwhile.
func TestStateTableForgetsNothingThatMatters(t *testing.T) {
	testkit.OneGoroutine(t)
	var busy, alone bytes.Buffer
	for i := range 30_000 {
		s := i / 10
		line := fmt.Sprintf(`192.0.2.%d - - [17/May/2015:10:%02d:%02d +0000] "GET / HTTP/1.1" 200 5`+"\n", i%7, s/60, s%60)
		busy.WriteString(line)
		alone.WriteString(line)
		fmt.Fprintf(&busy, `10.1.%d.%d - - [17/May/2015:10:%02d:%02d +0000] "GET / HTTP/1.1" 200 5`+"\n", i>>8&255, i&255, s/60, s%60)
	}
	for _, a := range Algorithms {
		limit, err := ParseLimit("10/min by ip", a, 0)
		if err != nil {
			t.Fatal(err)
		}
		var reports [2]*Report
		for i, log := range []*bytes.Buffer{&alone, &busy} {
			reports[i], err = Run(context.Background(), Options{Limit: limit, Reorder: DefaultReorder}, []accesslog.Input{accesslog.Reader("log", bytes.NewReader(log.Bytes()))})
			if err != nil {
				t.Fatal(err)
			}
		}
		if reports[0].Denied == 0 || reports[0].Denied != reports[1].Denied {
			t.Errorf("%v: %d denied alone, %d beside others", a, reports[0].Denied, reports[1].Denied)
		}
		for i, c := range reports[0].Clients {
			if reports[1].Clients[i] != c {
				t.Errorf("%v: %+v beside others, %+v alone", a, reports[1].Clients[i], c)
			}
		}
	}
}
