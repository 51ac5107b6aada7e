package limitjson

import (
	"strconv"

	"stint"
	"stint/internal/jsonbody"
	"stint/limiter"
	"stint/limiter/response"
	"stint/rule"
)

// AppendVerdict appends the answer to a check. With atMost it contains the units that were charged.
func AppendVerdict(dst []byte, v *limiter.Verdict, atMost bool) []byte {
	listed := ""
	if v.Listed != nil {
		listed = v.Listed.Name
	}
	dst = appendDecision(dst, nameOf(v.Rule, listed), &v.Decision, atMost)
	dst = appendReason(appendUnmatched(dst, v.Unmatched), v.Reason())
	dst = append(dst, `,"results":[`...)
	for i := range v.Results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendDecision(dst, nameOf(v.Results[i].Rule, listed), &v.Results[i].Decision, atMost)
		dst = appendReason(appendUnmatched(dst, v.Results[i].Unmatched), v.ReasonOf(i))
		dst = append(dst, '}')
	}
	return append(dst, "]}\n"...)
}

// appendReason appends the member reason of a denial.
func appendReason(dst []byte, r limiter.Reason) []byte {
	if r == "" {
		return dst
	}
	return append(append(append(dst, `,"reason":"`...), r...), '"')
}

// appendUnmatched appends the member unmatched if it is true.
func appendUnmatched(dst []byte, unmatched bool) []byte {
	if !unmatched {
		return dst
	}
	return append(dst, `,"matched":false`...)
}

// nameOf returns the name of the rule or list that decided; "" if none did.
func nameOf(r *rule.Rule, listed string) string {
	if r != nil {
		return r.Name
	}
	return listed
}

// appendDecision appends an object with the members of every answer, without the closing brace.
func appendDecision(dst []byte, name string, d *stint.Decision, atMost bool) []byte {
	dst = append(dst, `{"allowed":`...)
	dst = strconv.AppendBool(dst, d.Allowed)
	if atMost {
		dst = append(dst, `,"charged":`...)
		dst = strconv.AppendUint(dst, uint64(d.Charged), 10)
	}
	dst = append(dst, `,"rule":`...)
	dst = jsonbody.AppendString(dst, name)
	dst = append(dst, `,"limit":`...)
	dst = appendUnits(dst, d.Limit)
	dst = append(dst, `,"remaining":`...)
	dst = appendUnits(dst, d.Remaining)
	dst = append(dst, `,"retry_after_ms":`...)
	dst = strconv.AppendInt(dst, response.Millis(d.RetryAfter), 10)
	dst = append(dst, `,"reset_after_ms":`...)
	dst = strconv.AppendInt(dst, response.Millis(d.ResetAfter), 10)
	dst = append(dst, `,"delay_ms":`...)
	dst = strconv.AppendInt(dst, response.Millis(d.Delay), 10)
	dst = append(dst, `,"degraded":`...)
	dst = strconv.AppendBool(dst, d.Degraded)
	dst = append(dst, `,"over":`...)
	return strconv.AppendBool(dst, d.Over)
}

// appendUnits appends a number of units; null if unlimited.
func appendUnits(dst []byte, n int64) []byte {
	if n == stint.NoLimit {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, n, 10)
}
