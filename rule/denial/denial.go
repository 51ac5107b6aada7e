// Package denial builds the answer that a rule file sets for denied requests instead of the default
// one: a status, headers, and a body with the numbers of the verdict.
//
// The body is a JSON or HTML template. It is executed with sample numbers when the rule file is
// read, so a mistake makes the reload fail and not a later answer. All values in it are escaped, so
// the name of a rule cannot break the body.
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

// Never is the RetryAfter and ResetAfter of a limit for which waiting does not help, as in package
// stint.
const Never time.Duration = math.MaxInt64

// Denial is the answer of one rule. It is immutable and safe for concurrent use.
type Denial struct {
	// Status is the HTTP status, 400 to 599. The default is 429.
	Status int

	// Headers are set on the answer, in addition to the headers with numbers. The slice must not be
	// modified.
	Headers []Header

	// ContentType is the type of the body. It is "" if the denial has no body and the default body
	// is sent.
	ContentType string

	body executor
	size int // size of the template in bytes, for String
}

// Header is a header of the answer. Name is in lower case.
type Header struct{ Name, Value string }

// Numbers are the values that a body can contain. They are those of the limit that decided the
// verdict.
type Numbers struct {
	// Rule is the name of the rule.
	Rule string

	// Limit is the number of units that may pass, and Remaining how many still may.
	Limit, Remaining int64

	// RetryAfter is the time until a retry can pass, and ResetAfter the time until the full limit
	// is available again.
	RetryAfter, ResetAfter time.Duration

	// Renewal is the time when RetryAfter ends; zero means never.
	Renewal time.Time
}

// executor is a template of text/template or html/template.
type executor interface {
	Execute(w io.Writer, data any) error
}

// HasBody reports whether the denial has a body of its own.
func (d *Denial) HasBody() bool { return d.body != nil }

// AppendBody appends the body with these numbers, or nothing if the denial has no body. After an
// error nothing is appended and the caller should send the default body: the template failed with
// these numbers although it worked with the samples.
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

// String returns the status, the headers and the size of the body in one line.
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
