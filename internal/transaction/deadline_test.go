package transaction

import (
	"testing"
	"time"
)

func TestLatestDeadline(t *testing.T) {
	now := time.Now()
	of := func(all ...time.Time) time.Time {
		return LatestDeadline(len(all), func(i int) time.Time { return all[i] })
	}
	if last := of(now, now.Add(time.Hour), now.Add(time.Minute)); !last.Equal(now.Add(time.Hour)) {
		t.Errorf("%v after now, want an hour", last.Sub(now))
	}
	if last := of(now.Add(time.Hour), time.Time{}); last.Before(now.Add(answerTimeout)) || !last.Before(now.Add(time.Hour)) {
		t.Errorf("%v after now, want %v: one call has no deadline", last.Sub(now), answerTimeout)
	}
}
