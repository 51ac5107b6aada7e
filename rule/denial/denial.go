// Package denial makes the answers that rules of a file give in place of the
// ordinary one: a status, headers, and a body made of the verdict's numbers.
//
// The body is a template, of JSON or of HTML. It is tried when the rule file is
// read, so that a mistake in it stops the reload rather than an answer, and what
// stands in it is escaped: a rule may have any name, and the body stays what it is.
package denial

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Never is the RetryAfter and ResetAfter of what does not come back, as in package
// stint.
const Never time.Duration = math.MaxInt64

// Denial is the answer of one rule. It is immutable and safe for concurrent use.
type Denial struct {
	// Status is that of an HTTP answer, 400 to 599; 429 where the file is silent.
	Status int

	// Headers are set on the answer, beside those with numbers. The slice must not be
	// changed.
	Headers []Header

	// ContentType is that of the body; "" where the denial has no body of its own and
	// the ordinary one is sent.
	ContentType string

	body executor
	size int // of the template, for people
}

// Header is one header of an answer. The name is in lower case.
type Header struct{ Name, Value string }

// Numbers is what a body may say: those of the limit that speaks for the verdict.
type Numbers struct {
	// Rule is the name of the rule.
	Rule string

	// Limit is how much may pass, and Remaining how much still may.
	Limit, Remaining int64

	// RetryAfter is how long to wait, and ResetAfter how long it takes until all is as
	// if nothing had passed.
	RetryAfter, ResetAfter time.Duration

	// Renewal is when RetryAfter is over; the zero time: never.
	Renewal time.Time
}

// executor is a template of text/template or html/template.
type executor interface {
	Execute(w io.Writer, data any) error
}

// HasBody reports whether the denial has a body of its own.
func (d *Denial) HasBody() bool { return d.body != nil }

// AppendBody appends the body with these numbers, and nothing where the denial has
// none. After an error nothing is appended, and the ordinary body should be sent:
// the template does with these numbers what it did not do when it was tried.
func (d *Denial) AppendBody(dst []byte, n Numbers) ([]byte, error) {
	if d.body == nil {
		return dst, nil
	}
	b := bytes.NewBuffer(dst)
	if err := d.body.Execute(b, n.view()); err != nil {
		return dst, fmt.Errorf("denial: %w", err)
	}
	if body := b.Bytes()[len(dst):]; d.ContentType == jsonType && !json.Valid(body) {
		return dst, fmt.Errorf("denial: %w", errNotJSON)
	}
	return b.Bytes(), nil
}

var errNotJSON = errors.New("the body is not valid JSON")

// String returns what the denial says in one line.
func (d *Denial) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", d.Status)
	for _, h := range d.Headers {
		fmt.Fprintf(&b, " %s: %q", h.Name, h.Value)
	}
	if d.body != nil {
		kind, _, _ := strings.Cut(d.ContentType, ";")
		fmt.Fprintf(&b, " with %d bytes of %s", d.size, kind)
	}
	return b.String()
}
