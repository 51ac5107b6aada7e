package web

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"stint"
)

// Media types of the two formats of a body.
const (
	JSON    = "application/json"
	Problem = "application/problem+json"
)

// Problem types of a refusal, with their registered titles.
const (
	quotaExceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded"`
	reducedCapacity = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"Request cannot be satisfied due to temporary server capacity constraints"`
	untyped = `{"type":"about:blank","title":`
)

// Message has the texts for the body of a refusal. It is immutable.
type Message struct {
	code          string // all of them are JSON, without the outer quotes
	before, after string // text before and after {wait}
	timed         bool   // whether the text has {wait}
	never         string
}

// NewMessage returns a message with a code for programs and a text for people. {wait} in the text
// stands for the time to wait, for example "3 minutes". never is the text for refusals after which
// waiting does not help.
func NewMessage(code, text, never string) *Message {
	m := &Message{code: escape(code), never: escape(never)}
	before, after, timed := strings.Cut(text, "{wait}")
	m.before, m.after, m.timed = escape(before), escape(after), timed
	return m
}

// escape returns s with the escapes of a JSON string, without quotes.
func escape(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // encoding a string into a buffer never fails
	quoted := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return string(quoted[1 : len(quoted)-1])
}

// Text returns the text of a refusal without JSON's escapes.
func (m *Message) Text(retry time.Duration) string {
	text, _ := strconv.Unquote(string(append(m.appendText([]byte{'"'}, retry), '"'))) // it is always valid
	return text
}

// AppendEnvelope appends the error envelope of a refusal by a limit.
func (m *Message) AppendEnvelope(dst []byte, d *stint.Decision, reset Reset) []byte {
	dst = m.open(dst, d.RetryAfter)
	dst = append(dst, `"renewal":`...)
	dst = strconv.AppendInt(dst, reset.Value(d), 10)
	return append(dst, `}}}`...)
}

// AppendPlainEnvelope appends the error envelope of a refusal without a limit.
func (m *Message) AppendPlainEnvelope(dst []byte, retry time.Duration) []byte {
	return append(m.open(dst, retry), `}}}`...)
}

// open appends the start of the envelope, up to its context.
func (m *Message) open(dst []byte, retry time.Duration) []byte {
	dst = append(append(dst, `{"error":{"code":"`...), m.code...)
	dst = m.appendText(append(dst, `","message":"`...), retry)
	return append(dst, `","context":{`...)
}

// AppendProblem appends the problem details (RFC 9457) of a refusal by limits. Limits without
// presets are not named.
func (m *Message) AppendProblem(dst []byte, status int, policies []Policy, denied int) []byte {
	dst = m.problem(append(dst, quotaExceeded...), status, policies[denied].RetryAfter)
	dst = append(dst, `,"violated-policies":[`...)
	dst = appendViolated(dst, policies, denied)
	return append(dst, `]}`...)
}

// appendViolated appends the names of the limits that denied, the denied one first.
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

// AppendCapacityProblem appends the problem details of a refusal because the store did not answer.
func (m *Message) AppendCapacityProblem(dst []byte, status int, retry time.Duration) []byte {
	return append(m.problem(append(dst, reducedCapacity...), status, retry), '}')
}

// AppendPlainProblem appends the problem details of a refusal without a registered type, with the code
// as a member of its own. title is the title of its status.
func (m *Message) AppendPlainProblem(dst []byte, status int, title string, retry time.Duration) []byte {
	dst = append(append(append(dst, untyped...), '"'), escape(title)...)
	dst = append(m.problem(append(dst, '"'), status, retry), `,"code":"`...)
	return append(append(dst, m.code...), `"}`...)
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

// units are the units of a wait in words, the largest first.
var units = [...]struct {
	seconds int64
	name    string
}{{86400, " day"}, {3600, " hour"}, {60, " minute"}, {1, " second"}}

// AppendWait appends a duration in words. It rounds up to whole seconds, at least one, and then up
// to whole units of the largest unit that is not longer. 59 s is "59 seconds", 60 s "1 minute", 61
// s "2 minutes". If rounding reaches a larger unit it uses that: 59 minutes and 1 second is "1
// hour".
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
