package web

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"stint"
)

// Media types of the two bodies.
const (
	JSON    = "application/json"
	Problem = "application/problem+json"
)

// The problem types that a refusal may be, with their registered titles.
const (
	quotaExceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded"`
	reducedCapacity = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"Request cannot be satisfied due to temporary server capacity constraints"`
	untyped = `{"type":"about:blank","title":`
)

// Message is what the body of a refusal says. It is immutable.
type Message struct {
	code          string // all of them as JSON, the outer quotes left out
	before, after string // around the wait
	timed         bool   // whether there is a wait between them
	never         string
}

// NewMessage returns a message with a code for programs and a text for people, in
// which {wait} stands for how long to wait, such as "3 minutes". never is the text
// where waiting never helps.
func NewMessage(code, text, never string) *Message {
	m := &Message{code: escape(code), never: escape(never)}
	before, after, timed := strings.Cut(text, "{wait}")
	m.before, m.after, m.timed = escape(before), escape(after), timed
	return m
}

// escape returns s as it stands in a JSON string.
func escape(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes, and a buffer takes everything
	quoted := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return string(quoted[1 : len(quoted)-1])
}

// AppendEnvelope appends the error envelope of a refusal by a limit.
func (m *Message) AppendEnvelope(dst []byte, d *stint.Decision, reset Reset) []byte {
	dst = m.open(dst, d.RetryAfter)
	dst = append(dst, `"renewal":`...)
	dst = strconv.AppendInt(dst, reset.Value(d), 10)
	return append(dst, `}}}`...)
}

// AppendPlainEnvelope appends the error envelope of a refusal that no limit answers
// for.
func (m *Message) AppendPlainEnvelope(dst []byte, retry time.Duration) []byte {
	return append(m.open(dst, retry), `}}}`...)
}

// open appends the envelope up to its context.
func (m *Message) open(dst []byte, retry time.Duration) []byte {
	dst = append(append(dst, `{"error":{"code":"`...), m.code...)
	dst = m.appendText(append(dst, `","message":"`...), retry)
	return append(dst, `","context":{`...)
}

// AppendProblem appends the problem details (RFC 9457) of a refusal by limits.
// Those without presets are not named.
func (m *Message) AppendProblem(dst []byte, status int, policies []Policy, denied int) []byte {
	dst = m.problem(append(dst, quotaExceeded...), status, policies[denied].RetryAfter)
	dst = append(dst, `,"violated-policies":[`...)
	dst = appendViolated(dst, policies, denied)
	return append(dst, `]}`...)
}

// appendViolated appends the names of the limits that denied: the one that speaks,
// then the others.
func appendViolated(dst []byte, policies []Policy, denied int) []byte {
	begin := len(dst)
	for n := range len(policies) + 1 {
		p, speaks := &policies[denied], n == 0
		if !speaks {
			p = &policies[n-1]
		}
		if p.Presets == 0 || p.Allowed || !speaks && p.Name == policies[denied].Name {
			continue
		}
		if len(dst) > begin {
			dst = append(dst, ',')
		}
		dst = appendName(dst, p.Name)
	}
	return dst
}

// AppendCapacityProblem appends the problem details of a refusal because no limit
// could be asked.
func (m *Message) AppendCapacityProblem(dst []byte, status int, retry time.Duration) []byte {
	return append(m.problem(append(dst, reducedCapacity...), status, retry), '}')
}

// AppendPlainProblem appends the problem details of a refusal for which no type is
// registered; title is that of its status.
func (m *Message) AppendPlainProblem(dst []byte, status int, title string) []byte {
	dst = append(append(append(dst, untyped...), '"'), escape(title)...)
	return append(m.problem(append(dst, '"'), status, stint.Never), '}')
}

func (m *Message) problem(dst []byte, status int, retry time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, `,"status":`...), int64(status), 10)
	dst = m.appendText(append(dst, `,"detail":"`...), retry)
	return append(dst, '"')
}

func (m *Message) appendText(dst []byte, retry time.Duration) []byte {
	if retry == stint.Never {
		return append(dst, m.never...)
	}
	dst = append(dst, m.before...)
	if m.timed {
		dst = AppendWait(dst, retry)
	}
	return append(dst, m.after...)
}

// units are what a wait is told in, the largest first.
var units = [...]struct {
	seconds int64
	name    string
}{{86400, " day"}, {3600, " hour"}, {60, " minute"}, {1, " second"}}

// AppendWait appends a wait in words: whole seconds, rounded up and at least one,
// in the largest unit that is not longer than they are, rounded up again. 59 s is
// "59 seconds", 60 s "1 minute", 61 s "2 minutes". What rounds up to a whole larger
// unit is told as one of it: 59 minutes and 1 second is "1 hour".
func AppendWait(dst []byte, d time.Duration) []byte {
	s := wait(d)
	for i, u := range units {
		if s < u.seconds && u.seconds > 1 {
			continue
		}
		n := (s + u.seconds - 1) / u.seconds
		if i > 0 && n*u.seconds == units[i-1].seconds {
			u, n = units[i-1], 1
		}
		dst = append(strconv.AppendInt(dst, n, 10), u.name...)
		if n > 1 {
			dst = append(dst, 's')
		}
		break
	}
	return dst
}
