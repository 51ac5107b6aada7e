package model

import (
	"math"
	"time"

	"stint"
)

// Moment is a call of one take on one key: its time, operation, cost and limit.
type Moment struct {
	At    time.Duration // since the start of the history; it may be negative
	Op    stint.Op
	Cost  uint32
	Limit *stint.Limit
}

// Differences returns short histories, by name, in which stores once decided differently from the model, or
// the model was inconsistent.
func Differences() map[string][]Moment {
	const day = 24 * time.Hour
	limit := stint.MustLimit
	log := func(requests uint32, per time.Duration) *stint.Limit {
		return limit(stint.Spec{Algorithm: stint.SlidingLog, Requests: requests, Per: per})
	}
	spaced := limit(stint.Spec{Algorithm: stint.SlidingLog, Requests: 10, Per: stint.MaxPer, MinInterval: time.Hour})
	huge := limit(stint.Spec{Algorithm: stint.SlidingLog, Requests: math.MaxUint32, Per: 7 * time.Second})
	queue := limit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 5, Per: 7 * time.Minute, Burst: 1})
	slow := limit(stint.Spec{Algorithm: stint.LeakyBucket, Requests: 1, Per: stint.MaxPer, Burst: 10})
	full := func(requests uint32, blocks int) *stint.Limit {
		return limit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: requests, Per: 7 * time.Second, Blocks: blocks, StartUsedUp: true})
	}
	blocks := func(requests uint32, per time.Duration) *stint.Limit {
		return limit(stint.Spec{Algorithm: stint.SlidingWindow, Requests: requests, Per: per, Blocks: 10})
	}
	calendar, year := limit(stint.Spec{Requests: 5, Calendar: stint.Day}), limit(stint.Spec{Requests: 50, Calendar: stint.Year})
	daily := limit(stint.Spec{Requests: 1, Calendar: stint.Day})
	first := limit(stint.Spec{Requests: 2, Per: 7 * time.Second, FromFirst: true})
	debt := limit(stint.Spec{Requests: 60, Per: time.Second, CarryDebt: true})
	holds := limit(stint.Spec{Algorithm: stint.TokenBucket, Requests: 10, Per: time.Hour, Reserve: true})
	return map[string][]Moment{
		"a moment before what is held was taken": {
			{0, stint.Ask, 3, holds}, {-time.Second, stint.Ask, 1, holds}, {-time.Second, stint.Refund, 1, holds}, {-time.Second, stint.Ask, 7, holds},
		},
		"a queue's debt under slower numbers": {
			{0, stint.Force, math.MaxUint32, queue}, {time.Minute, stint.Ask, 3, slow}, {time.Minute, stint.Ask, 1, queue},
		},
		"a start that is full of 2^31 units": {
			{0, stint.Ask, 1<<31 - 1, full(math.MaxUint32, 2)}, {time.Second, stint.Ask, 0, full(math.MaxUint32, 2)},
		},
		"blocks that were pruned later than the newest": {
			{2 * time.Second, stint.Ask, 1, full(3, 1)},
			{18 * time.Second, stint.Ask, 4, full(3, 1)},
			{-day, stint.Ask, 1, full(3, 1)},
			{-day, stint.Ask, 1, full(3, 1)},
		},
		"given back after its log was moved": {
			{0, stint.Ask, 3, log(5, time.Second)}, {-day, stint.Force, 1, log(2, time.Hour)}, {7*time.Second - day, stint.Refund, 2, log(5, time.Second)},
		},
		"given back of blocks in debt": {
			{0, stint.Ask, 3, blocks(1000, time.Hour)},
			{3 * time.Second, stint.Ask, 1, blocks(1, 10*time.Millisecond)},
			{2 * time.Second, stint.Refund, 2, blocks(1, 10*time.Millisecond)},
		},
		"a log of more windows than there are until the end of time": {
			{0, stint.Ask, math.MaxUint32 - 2, huge}, {3 * time.Second, stint.Ask, 2, huge}, {-day, stint.Ask, 1, spaced},
		},
		"a day of the calendar, asked under other numbers": {
			{0, stint.Force, 5, calendar}, {-2 * day, stint.Ask, 9, first}, {-2 * day, stint.Ask, 1, first}, {-2 * day, stint.Ask, 1, calendar},
		},
		"a day of the calendar, given back under other numbers when it was over": {
			{0, stint.Ask, 9, year},
			{0, stint.Force, 1, calendar},
			{day, stint.Refund, 3, year},
			{day - 5*time.Second - 2*time.Microsecond, stint.Ask, 1, year},
		},
		"a day of the calendar, given back under other numbers before the clock goes back": {
			{0, stint.Ask, 40, year}, {0, stint.Force, 1, calendar}, {3 * day, stint.Refund, 1, debt}, {time.Minute, stint.Ask, 1, calendar},
		},
		"days of the calendar with a debt, given back under other numbers when some were over": {
			{0, stint.Ask, 40, year}, {0, stint.Force, 1, calendar}, {2 * day, stint.Refund, 3, debt}, {3 * day, stint.Ask, 0, daily},
		},
		"a window with debt, moved": {
			{0, stint.Ask, 11, debt}, {-day, stint.Ask, 2, debt}, {1500*time.Millisecond - day, stint.Ask, 1, first},
		},
		"a log in debt, seen by who debits nothing under other numbers": {
			{0, stint.Ask, 3, log(5, time.Second)}, {0, stint.Force, 1, log(1, 10*time.Hour)}, {25 * time.Hour, stint.Force, 0, log(3, 300*time.Millisecond)},
		},
		"a log that forgot": {
			{0, stint.Ask, 1, log(1, 10*time.Millisecond)}, {time.Minute, stint.Ask, 2, log(1, 10*time.Millisecond)}, {-day, stint.Ask, 1, log(1, 10*time.Millisecond)},
		},
	}
}
