package replay

import (
	"fmt"
	"math/big"
	"regexp"

	words "stint/internal/text"
)

// ThresholdError is a fault in the text of a threshold.
type ThresholdError struct{ Problem, Hint string }

// Error returns the problem without the hint.
func (e *ThresholdError) Error() string { return e.Problem }

// Threshold is a condition on a report, such as "denied > 1%". It is safe for concurrent use.
type Threshold struct {
	text    string
	metric  string
	op      string
	bound   *big.Rat
	percent bool
}

var thresholdForm = regexp.MustCompile(`^\s*([a-z-]+)\s*(>=|<=|>|<)\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*(%?)\s*$`)

// Measured is what a threshold is about: a [*Report] or a [*whatif.Plan].
type Measured interface {
	// Measure returns the value of a metric, what a share of it refers to, and the noun of both with
	// its plural. known is false for an unknown metric.
	Measure(metric string) (part, whole int64, noun [2]string, known bool)

	// Metrics returns the names of all metrics.
	Metrics() []string
}

// ParseThreshold parses METRIC OP NUMBER, where METRIC is one of those of what is measured, OP is one
// of > >= < <=, and NUMBER is a count or, with %, a share. The error is a *ThresholdError.
func ParseThreshold(text string, about Measured) (*Threshold, error) {
	refuse := func(problem, hint string) (*Threshold, error) {
		return nil, &ThresholdError{fmt.Sprintf("%q %s", text, problem), hint}
	}
	m := thresholdForm.FindStringSubmatch(text)
	if m == nil {
		return refuse("is not METRIC OP NUMBER", `write it as "denied > 1%" or "late >= 100"`)
	}
	t := &Threshold{metric: m[1], op: m[2], percent: m[4] == "%"}
	if _, _, _, known := about.Measure(t.metric); !known {
		return refuse("has no known metric", "known are "+words.JoinWith(about.Metrics(), "and"))
	}
	t.bound, _ = new(big.Rat).SetString(m[3]) // cannot fail: the expression matched
	if t.percent && t.bound.Cmp(big.NewRat(100, 1)) > 0 {
		return refuse("asks for more than 100%", "write a smaller share, or a count without %")
	}
	t.text = fmt.Sprintf("%s %s %s%s", t.metric, t.op, m[3], m[4])
	return t, nil
}

// Met reports whether a report or a plan meets the condition; has is its value as text. The
// comparison is exact. A share of nothing is 0.
func (t *Threshold) Met(of Measured) (is bool, has string) {
	part, whole, noun, _ := of.Measure(t.metric)
	value := new(big.Rat).SetInt64(part)
	if t.percent {
		value.SetFrac64(100*part, max(whole, 1))
	}
	switch c := value.Cmp(t.bound); t.op {
	case ">":
		is = c > 0
	case ">=":
		is = c >= 0
	case "<":
		is = c < 0
	case "<=":
		is = c <= 0
	}
	name := noun[1]
	if whole == 1 {
		name = noun[0]
	}
	return is, fmt.Sprintf("%d of %d %s (%.2f%%)", part, whole, name, 100*float64(part)/float64(max(whole, 1)))
}

// String returns the threshold as the user wrote it.
func (t *Threshold) String() string { return t.text }

// Metrics implements [Measured].
func (r *Report) Metrics() []string { return []string{"denied", "late", "unparseable"} }

// Measure implements [Measured]. The shares of denied and late refer to the parsed lines, that of
// unparseable to all lines.
func (r *Report) Measure(metric string) (part, whole int64, noun [2]string, known bool) {
	noun = [2]string{"line", "lines"}
	switch metric {
	case "denied":
		return r.Denied, r.Parsed, noun, true
	case "late":
		return r.Late, r.Parsed, noun, true
	case "unparseable":
		return r.Unparseable, r.Lines, noun, true
	}
	return 0, 0, noun, false
}
