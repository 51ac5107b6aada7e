package web

import "strings"

// PrefersProblem reports whether a client with these Accept headers gets problem details instead of
// the plain envelope: it rates them higher, or equally high and names them. A client that accepts
// neither gets the envelope.
func PrefersProblem(accept []string) bool {
	problem, plain := compare(accept, Problem, JSON)
	if problem.weight != plain.weight {
		return problem.weight > plain.weight
	}
	return problem.weight > 0 && problem.exact == exactMatch
}

// PrefersHTML reports whether a client with these Accept headers names HTML, and does not rate plain
// text higher. Browsers do; programs accept anything.
func PrefersHTML(accept []string) bool {
	html, plain := compare(accept, "text/html", "text/plain")
	return html.weight > 0 && html.exact == exactMatch && html.weight >= plain.weight
}

// compare returns the ratings of two media types by Accept headers.
func compare(accept []string, first, second string) (one, two rating) {
	for _, line := range accept {
		for line != "" {
			var element string
			element, line, _ = Cut(line, ',')
			media, weight, ok := parseRange(element)
			if !ok {
				continue
			}
			one.rate(media, first, weight)
			two.rate(media, second, weight)
		}
	}
	return one, two
}

// rating is a client's rating of one media type, by the most specific range that contains the type.
type rating struct {
	exact  int // specificity of the range; 0: no range contains the type
	weight int // in thousandths
}

const exactMatch = 3

// rate applies a range of an Accept header. It ignores parameters of the type, except its weight.
func (r *rating) rate(media, offer string, weight int) {
	exact := 0
	switch {
	case strings.EqualFold(media, offer):
		exact = exactMatch
	case strings.EqualFold(media, "application/*"):
		exact = 2
	case media == "*/*":
		exact = 1
	}
	if exact > r.exact || exact > 0 && exact == r.exact && weight > r.weight {
		r.exact, r.weight = exact, weight
	}
}

// Cut cuts s at the first mark outside of a quoted string, for lists and parameters in header
// values. It is not valid if a quoted string does not end.
func Cut(s string, mark byte) (before, after string, valid bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quoted:
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == mark && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", !quoted
}

// parseRange parses one element of an Accept header. ok is false for an invalid weight.
func parseRange(element string) (media string, weight int, ok bool) {
	media, params, _ := strings.Cut(element, ";")
	weight = 1000
	for params != "" {
		var param string
		param, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			if weight, ok = parseWeight(strings.TrimSpace(value)); !ok {
				return "", 0, false
			}
		}
	}
	return strings.TrimSpace(media), weight, true
}

// parseWeight parses a number from 0 to 1 with at most three decimals, in thousandths.
func parseWeight(s string) (int, bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0, false
	}
	n := int(whole[0] - '0')
	for i := range 3 {
		n *= 10
		if i < len(decimals) {
			if decimals[i] < '0' || decimals[i] > '9' {
				return 0, false
			}
			n += int(decimals[i] - '0')
		}
	}
	return n, n <= 1000
}
