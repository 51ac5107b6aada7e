package hints

import (
	"slices"
	"strings"
)

// Unit returns the unit that people mean by a text such as minutes, sec or h; "" if there is none.
func Unit(text string) string {
	text = strings.ToLower(text)
	short := map[string]string{
		"s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour", "hr": "hour", "d": "day",
		"w": "week", "mon": "month", "y": "year", "yr": "year", "daily": "day",
	}
	singular := strings.TrimSuffix(text, "s")
	for _, name := range []string{text, singular, short[text], short[singular], strings.TrimSuffix(text, "ly")} {
		if slices.Contains([]string{"second", "minute", "hour", "day", "week", "month", "year"}, name) {
			return name
		}
	}
	return ""
}
