package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/internal/strictyaml"
)

// This file reads what is kept of the use of a limit: for how many periods, and at which parts of the limit
// an event says so. Limits of plans have it, and others too.

// ReadPeriods reads `usage`: how many periods are kept before the current one, 1 to most. It returns 0 after a
// fault.
func ReadPeriods(v strictyaml.Value, most int) int {
	n := int(v.Count32("no period is kept", "write how many periods to keep before the current one, such as usage: 13, or leave it out"))
	if n > most {
		v.Fail(fmt.Sprintf("usage: %d periods are too many", n), fmt.Sprintf("write at most %d", most))
		return 0
	}
	return n
}

// ReadRollover reads `rollover`: how many unused units of a period may be used in the next one at most. It returns
// 0 after a fault, as outside of a plan.
func ReadRollover(v strictyaml.Value, inPlan bool) uint32 {
	n := v.Count32("no units roll over", "write how many units at most, such as rollover: 1000, or leave it out")
	if n > 0 && !inPlan {
		v.Fail("rollover outside of a plan", "put the limit into a plan, and write plan: with its name here")
		return 0
	}
	return n
}

// ReadNotify reads `notify`: percentages of the limit, at most most of them, which it returns in order. ok is
// false after a fault.
func ReadNotify(v strictyaml.Value, most int) (percents []uint8, ok bool) {
	list := v.OneOrList()
	if len(list) == 0 || len(list) > most {
		v.Fail(fmt.Sprintf("notify has %d percentages", len(list)), fmt.Sprintf("write 1 to %d, such as notify: [80%%, 100%%]", most))
		return nil, false
	}
	ok = true
	for _, element := range list {
		number, whole := strings.CutSuffix(element.Text(), "%")
		percent, err := strconv.ParseUint(number, 10, 8)
		switch {
		case !whole || err != nil || percent < 1 || percent > 100:
			element.Fail(fmt.Sprintf("notify: %q is no whole percentage from 1%% to 100%%", element.Text()), "write a part of the limit, such as 80%")
			ok = false
			continue
		case slices.Contains(percents, uint8(percent)):
			element.Fail(fmt.Sprintf("notify: %d%% stands twice", percent), "write each percentage once")
			ok = false
		}
		percents = append(percents, uint8(percent))
	}
	slices.Sort(percents)
	return percents, ok
}
