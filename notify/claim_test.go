package notify

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"stint/internal/testkit"
)

// A delivery is handed out once, also while the result of another claim of it is being stored.
func TestClaimOnce(t *testing.T) {
	f, err := OpenFile(filepath.Join(t.TempDir(), "webhooks"))
	testkit.Must(t, err)
	defer func() { testkit.Must(t, f.Close()) }()
	const events = 200
	var list []Delivery
	for n := range events {
		list = append(list, Delivery{Receiver: "queue", Event: event(n)})
	}
	testkit.Must(t, f.Add(t.Context(), list))
	var mu sync.Mutex
	times := map[string]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				claimed, err := f.Claim(t.Context(), Claim{Receiver: "queue", Max: 1, Lease: time.Hour, Keep: events})
				if err != nil || claimed.Status.Delivered == events {
					return
				}
				for _, d := range claimed.Deliveries {
					mu.Lock()
					times[d.Event.ID]++
					mu.Unlock()
					d.State = Delivered
					if err := f.Save(t.Context(), &d, Then{}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	for id, n := range times {
		if n != 1 {
			t.Errorf("%s is handed out %d times", id, n)
		}
	}
	if len(times) != events {
		t.Errorf("%d of %d are handed out", len(times), events)
	}
}
