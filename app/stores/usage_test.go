package stores

import (
	"testing"
	"time"

	"stint"
	"stint/internal/testkit"
	"stint/internal/transaction"
	"stint/store/memory"
)

// The outbox shows the events of the store as those who deliver them know them, until they are done.
func TestOutbox(t *testing.T) {
	st := &Stores{memory: memory.New(memory.Options{Namespace: "shop"})}
	limit := stint.MustLimit(stint.Spec{Requests: 10, Calendar: stint.Day})
	at := stint.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	take := stint.Take{Key: "k", Limit: limit, Cost: 8, Handling: &stint.Handling{
		Terms: &stint.Terms{Domain: "api", Rule: "calls", Usage: 1, Notify: []uint8{80, 100}},
		Meter: &transaction.Meter{Subject: "user=42", Plan: "pro", Limit: "day", Of: 10},
	}}
	testkit.Must(t, st.memory.Decide(t.Context(), &stint.Call{At: at, Takes: []stint.Take{take}}))
	box := st.Outbox()
	events, err := box.Pending(t.Context(), 10)
	if err != nil || len(events) != 1 {
		t.Fatalf("%+v, %v", events, err)
	}
	e := events[0]
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if e.Type != "usage.threshold" || e.Rule != "api/calls" || e.Limit != "day" || e.Subject != "user=42" || e.Plan != "pro" || e.Threshold != 80 ||
		e.Used != 8 || e.Of != 10 || !e.PeriodStart.Equal(day) || !e.PeriodEnd.Equal(day.AddDate(0, 0, 1)) || !e.At.Equal(at.Time()) || e.ID == "" {
		t.Errorf("%+v", e)
	}
	if u, err := st.Usage(t.Context(), &take); err != nil || len(u.History) != 1 || u.History[0].Used != 8 {
		t.Errorf("%+v, %v", u, err)
	}
	count := 0
	if err := st.Usages(t.Context(), func(transaction.Usage) bool { count++; return true }); err != nil || count != 1 {
		t.Errorf("%d histories, %v", count, err)
	}
	testkit.Must(t, box.Done(t.Context(), []string{e.ID}))
	if events, err := box.Pending(t.Context(), 10); err != nil || len(events) != 0 {
		t.Errorf("%+v, %v", events, err)
	}
}
