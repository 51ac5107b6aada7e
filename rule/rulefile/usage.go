package rulefile

import (
	"fmt"

	"stint/internal/strictyaml"
	"stint/rule"
	"stint/rule/plan"
)

// readsUsage returns what the limit keeps of the use of its keys, and makes it if there is none.
func (l *limit) readsUsage() *rule.Usage {
	if l.usage == nil {
		l.usage = &rule.Usage{}
	}
	return l.usage
}

func (l *limit) readUsage(v strictyaml.Value) {
	n := plan.ReadPeriods(v, rule.MaxUsage)
	l.readsUsage().Periods = n
	l.wrong = l.wrong || n == 0
}

func (l *limit) readNotify(v strictyaml.Value) {
	percents, ok := plan.ReadNotify(v, rule.MaxNotify)
	l.readsUsage().Notify = percents
	l.wrong = l.wrong || !ok
}

func (l *limit) readRollover(v strictyaml.Value) {
	l.readsUsage().Rollover = plan.ReadRollover(v, l.inPlan)
	l.wrong = l.wrong || l.usage.Rollover == 0
}

// checkUsage refuses usage, notify and rollover where the store does not decide each take by a limit of its own.
func (l *limit) checkUsage() {
	if l.usage == nil {
		return
	}
	v, over := l.said["rollover"]
	for _, word := range []string{"usage", "notify"} {
		if said, ok := l.said[word]; ok && !over {
			v = said
		}
	}
	switch {
	case over && (l.soft > 0 || l.spec.FromFirst || l.spec.Overdraw):
		l.fail(v, "rollover beside soft, overdraw or align: first", "what is left of a period must follow from the calendar and the limit alone; leave one of the two out")
	case l.coordination != rule.Strict:
		l.fail(v, fmt.Sprintf("%s beside coordination: %v", v.Word(), l.coordination), "nodes that decide themselves tell the store later, so no count would be exact; write coordination: strict, or leave it out")
	case l.elastic != nil:
		l.fail(v, v.Word()+" beside elastic", "what passes above the limit is counted in the pool alone; leave one of the two out")
	}
}

// checkDurable refuses durable where the store does not decide each take by a limit of its own.
func (l *limit) checkDurable() {
	v := l.said["durable"]
	switch {
	case !l.durable:
	case l.coordination != rule.Strict:
		l.fail(v, fmt.Sprintf("durable beside coordination: %v", l.coordination), "what a node decides from its own memory is lost with it; write coordination: strict, or leave it out")
	case l.elastic != nil:
		l.fail(v, "durable beside elastic", "what passes above the limit is counted in the pool alone; leave one of the two out")
	}
}

// agreeUsage sets what the store keeps of a rule.
func (l *limit) agreeUsage(r *rule.Rule) {
	if r.Usage = l.usage; r.Usage != nil {
		r.Terms.Usage, r.Terms.Notify = r.Usage.Periods, r.Usage.Notify
	}
}
