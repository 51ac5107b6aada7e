package text

import "fmt"

// Plural returns a number with its noun.
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}

// Thousands formats a number with commas.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Percent returns part as a percentage of whole. Only 0 is shown as 0 %, and only the whole as 100
// %.
func Percent(part, whole int64) string {
	if whole == 0 || part == 0 {
		return "0 %"
	}
	p := 100 * float64(part) / float64(whole)
	switch {
	case part == whole:
		return "100 %"
	case p < 0.01:
		return "< 0.01 %"
	case p > 99.9:
		return "> 99.9 %"
	case p < 1:
		return fmt.Sprintf("%.2f %%", p)
	}
	return fmt.Sprintf("%.1f %%", p)
}
