package main

import (
	"fmt"
	"time"

	"stint"
	"stint/store/storetest/model"
)

// five are the times of the smallest example in which all algorithms differ.
var five = []time.Duration{
	200 * time.Millisecond, 600 * time.Millisecond, 600 * time.Millisecond, 1200 * time.Millisecond, 1300 * time.Millisecond,
}

// fiveTable decides them by three per second under every algorithm.
func fiveTable() string {
	rows := [][]string{{"3 per second as"}}
	for _, at := range five {
		rows[0] = append(rows[0], seconds(at))
	}
	for _, l := range comparisons {
		spec := l.spec
		spec.Requests = 3
		label := l.label
		if spec.Algorithm == stint.LeakyBucket {
			spec.Burst, label = 2, "leaky_bucket, burst: 2"
		}
		limit, state := stint.MustLimit(spec), stint.State{}
		row := []string{"`" + label + "`"}
		for _, at := range five {
			d := limit.Take(&state, model.TraceStart.Add(at), 1)
			text := answer(d)
			if !d.Allowed {
				text += ", retry after " + seconds(d.RetryAfter)
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// weightedTable shows the result for the last of the five if a log were weighted like a
// sliding_window: entries of the previous second count by the fraction of that second which the
// window still covers.
func weightedTable() string {
	now := five[len(five)-1]
	edge := now.Truncate(time.Second)
	var before, since int
	for _, at := range five[:len(five)-1] {
		switch {
		case at >= edge:
			since++
		case at > now-time.Second:
			before++
		}
	}
	part := 1 - (now - edge).Seconds()
	estimate := float64(before)*part + float64(since)
	verdict := "denied"
	if int(estimate)+1 <= 3 {
		verdict = "passes"
	}
	return markdown([][]string{
		{"at " + seconds(now), "in the last second", "counts as", "with this one", "answer"},
		{"log", fmt.Sprint(before + since), fmt.Sprint(before + since), fmt.Sprint(before + since + 1), "denied"},
		{
			"log, weighted", fmt.Sprint(before + since), fmt.Sprintf("%d * %.1f + %d = %.1f", before, part, since, estimate),
			fmt.Sprint(int(estimate) + 1), verdict,
		},
	})
}
