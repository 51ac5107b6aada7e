package transaction

import "stint"

// DecisionTime returns the time for deciding an unknown key at now, if expired states were dropped
// at lastDrop: the later of the two, so that the dropped states admit nothing again. It returns now
// if the clock was ahead at lastDrop.
func DecisionTime(now, lastDrop stint.Instant) stint.Instant {
	if lastDrop <= now || lastDrop.Future(now) {
		return now
	}
	return lastDrop
}

// CorrectTime changes a decision that was made for the later time at, because earlier states were
// dropped, into one for now. A reservation keeps the later time.
func CorrectTime(now, at stint.Instant, limit *stint.Limit, d *stint.Decision) {
	by := at.Sub(now)
	if by <= 0 {
		return
	}
	if !limit.ForStores().Reserves() {
		d.At = now
	}
	if !d.Allowed && d.RetryAfter != stint.Never {
		d.RetryAfter += by
	}
	if d.ResetAfter > 0 {
		d.ResetAfter += by
	}
}
