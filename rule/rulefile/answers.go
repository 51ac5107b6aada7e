package rulefile

import (
	"fmt"

	"stint"
	"stint/internal/strictyaml"
	"stint/rule"
)

// readCount reads `count`: requests or responses.
func (l *limit) readCount(v strictyaml.Value) {
	i, ok := v.OneOf("requests", "responses")
	l.wrong = l.wrong || !ok
	if i == 1 {
		l.answers = new(rule.Answers)
	}
}

// readStatuses reads `statuses`, such as [401, 5xx, 400-403]. It runs after readCount.
func (l *limit) readStatuses() {
	count, counts := l.said["count"]
	v, says := l.said["statuses"]
	switch {
	case l.answers == nil && says && (!counts || !l.wrong):
		l.fail(v, "statuses stand without count: responses", "add count: responses, which charges by the answer, or leave them out")
		return
	case l.answers == nil:
		return
	case !says:
		l.fail(count, "count: responses does not say which answers count", "add statuses:, such as [401], [5xx] or [400-499]")
		return
	}
	l.readResponses(count)
	l.spec.Reserve = l.spec.Algorithm == stint.TokenBucket // other algorithms can undo any take
	elements := v.OneOrList()
	for _, element := range elements {
		l.readStatus(element)
	}
	if len(elements) == 0 {
		l.fail(v, "statuses is empty", "write at least one, such as [401], [5xx] or [400-499]")
	}
}

// readResponses refuses settings that do not work with `count: responses`.
func (l *limit) readResponses(count strictyaml.Value) {
	if l.spec.Algorithm == stint.LeakyBucket {
		l.fail(count, "count: responses of a leaky_bucket", "a place in a queue is used when the request is let go, whatever its answer; choose another algorithm")
	}
	if v, ok := l.said["count_denied"]; ok && l.spec.CountDenied {
		l.fail(v, "count_denied beside count: responses", "what is denied has no answer that could count; keep one of the two")
	}
	if v, ok := l.said["overdraw"]; ok && l.spec.Overdraw {
		l.fail(v, "overdraw beside count: responses", "what is denied has no answer, and would stay debited; keep one of the two")
	}
}

// readStatus adds one status or one range of statuses.
func (l *limit) readStatus(v strictyaml.Value) {
	from, to, ok := rule.ParseStatuses(v.Text())
	if !ok {
		l.fail(v, fmt.Sprintf("statuses: %q is no status of HTTP", v.Text()),
			fmt.Sprintf("write a number from %d to %d, a class such as 5xx, or a range such as 400-403", rule.LeastStatus, rule.MostStatus))
		return
	}
	for status := from; status <= to; status++ {
		if l.answers.Charges(status) {
			l.fail(v, fmt.Sprintf("statuses: %d stands twice", status), "name each status once, by itself or in one class or range")
			return
		}
	}
	l.answers.Add(from, to)
}
