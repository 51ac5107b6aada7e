package replay

import (
	"fmt"
	"math/big"
	"regexp"
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

var thresholdForm = regexp.MustCompile(`^\s*([a-z]+)\s*(>=|<=|>|<)\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*(%?)\s*$`)

// ParseThreshold parses METRIC OP NUMBER, where METRIC is denied, late or unparseable, OP is one of
// > >= < <=, and NUMBER is a count of lines or, with %, a share of them. The shares of denied and
// late refer to the parsed lines, that of unparseable to all lines. The error is a *ThresholdError.
func ParseThreshold(text string) (*Threshold, error) {
	refuse := func(problem, hint string) (*Threshold, error) {
		return nil, &ThresholdError{fmt.Sprintf("%q %s", text, problem), hint}
	}
	m := thresholdForm.FindStringSubmatch(text)
	if m == nil {
		return refuse("is not METRIC OP NUMBER", `write it as "denied > 1%" or "late >= 100"`)
	}
	t := &Threshold{metric: m[1], op: m[2], percent: m[4] == "%"}
	switch t.metric {
	case "denied", "late", "unparseable":
	default:
		return refuse("has no known metric", "known are denied, late and unparseable")
	}
	t.bound, _ = new(big.Rat).SetString(m[3]) // cannot fail: the expression matched
	if t.percent && t.bound.Cmp(big.NewRat(100, 1)) > 0 {
		return refuse("asks for more than 100%", "write a smaller share, or a count without %")
	}
	t.text = fmt.Sprintf("%s %s %s%s", t.metric, t.op, m[3], m[4])
	return t, nil
}

// Met reports whether a report meets the condition; has is the value of the report as text. The
// comparison is exact. A share of no lines is 0.
func (t *Threshold) Met(r *Report) (is bool, has string) {
	part, whole := r.Denied, r.Parsed
	switch t.metric {
	case "late":
		part = r.Late
	case "unparseable":
		part, whole = r.Unparseable, r.Lines
	}
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
	lines := "lines"
	if whole == 1 {
		lines = "line"
	}
	return is, fmt.Sprintf("%d of %d %s (%.2f%%)", part, whole, lines, 100*float64(part)/float64(max(whole, 1)))
}

// String returns the threshold as the user wrote it.
func (t *Threshold) String() string { return t.text }
