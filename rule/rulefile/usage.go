package rulefile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"stint/internal/strictyaml"
	"stint/rule"
)

// readsUsage returns what the limit keeps of the use of its keys, and makes it if there is none.
func (l *limit) readsUsage() *rule.Usage {
	if l.usage == nil {
		l.usage = &rule.Usage{}
	}
	return l.usage
}

func (l *limit) readUsage(v strictyaml.Value) {
	n := v.Count32("no period is kept", "write how many periods to keep before the current one, such as usage: 13, or leave it out")
	if n > rule.MaxUsage {
		v.Fail(fmt.Sprintf("usage: %d periods are too many", n), fmt.Sprintf("write at most %d", rule.MaxUsage))
		n = 0
	}
	l.readsUsage().Periods = int(n)
	l.wrong = l.wrong || n == 0
}

func (l *limit) readNotify(v strictyaml.Value) {
	u := l.readsUsage()
	list := v.OneOrList()
	if len(list) == 0 || len(list) > rule.MaxNotify {
		l.fail(v, fmt.Sprintf("notify has %d percentages", len(list)), fmt.Sprintf("write 1 to %d, such as notify: [80%%, 100%%]", rule.MaxNotify))
		return
	}
	for _, element := range list {
		number, whole := strings.CutSuffix(element.Text(), "%")
		percent, err := strconv.ParseUint(number, 10, 8)
		switch {
		case !whole || err != nil || percent < 1 || percent > 100:
			l.fail(element, fmt.Sprintf("notify: %q is no whole percentage from 1%% to 100%%", element.Text()), "write a part of the limit, such as 80%")
			continue
		case slices.Contains(u.Notify, uint8(percent)):
			l.fail(element, fmt.Sprintf("notify: %d%% stands twice", percent), "write each percentage once")
		}
		u.Notify = append(u.Notify, uint8(percent))
	}
	slices.Sort(u.Notify)
}

// checkUsage refuses usage and notify where the store does not decide each take by a limit of its own.
func (l *limit) checkUsage() {
	if l.usage == nil {
		return
	}
	v, ok := l.said["usage"]
	if !ok {
		v = l.said["notify"]
	}
	switch {
	case l.coordination != rule.Strict:
		l.fail(v, fmt.Sprintf("%s beside coordination: %v", v.Word(), l.coordination), "nodes that decide themselves tell the store later, so no count would be exact; write coordination: strict, or leave it out")
	case l.elastic != nil:
		l.fail(v, v.Word()+" beside elastic", "what passes above the limit is counted in the pool alone; leave one of the two out")
	}
}

// agreeUsage sets what the store keeps of a rule.
func (l *limit) agreeUsage(r *rule.Rule) {
	if r.Usage = l.usage; r.Usage != nil {
		r.Terms.Usage, r.Terms.Notify = r.Usage.Periods, r.Usage.Notify
	}
}
