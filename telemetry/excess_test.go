package telemetry

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stint/limiter/line"
)

// Each rule with a line has its numbers, by outcome.
func TestLines(t *testing.T) {
	m, l, now := New(prometheus.NewRegistry()), line.New(), time.Now()
	m.Lines(l.Stats)
	s := &service{metrics: m}
	r := line.Request{
		ID: line.ID{Domain: "api", Rule: "users"}, Cost: 1, RoomAt: now.Add(time.Second),
		Settings: line.Settings{MaxWait: time.Minute, Places: 2, PerKey: 2},
	}
	first, err := l.Join(now, &r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Join(now, &r); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Join(now, &r); err == nil {
		t.Fatal("a third one of two")
	}
	first.Leave(now.Add(1500*time.Millisecond), line.Passed, 0)
	s.expect(t, `
		stint_excess_waiting{domain="api",rule="users"} 1
		stint_excess_entered_total{domain="api",rule="users"} 2
		stint_excess_left_total{domain="api",outcome="passed",rule="users"} 1
		stint_excess_left_total{domain="api",outcome="gone",rule="users"} 0
		stint_excess_refused_total{domain="api",outcome="full",rule="users"} 1
		stint_excess_refused_total{domain="api",outcome="late",rule="users"} 0
		stint_excess_waited_seconds_total{domain="api",rule="users"} 1.5
	`)
}
