package web

import (
	"strings"
	"testing"

	"stint/internal/testkit"
)

// Reading a parameter takes little memory for each byte of any query.
func TestDecodersAreFrugal(t *testing.T) {
	seeds := [][]byte{[]byte("q=1&cost=5&q=%41")}
	for _, piece := range []string{"q&", "q=&", "q=%41&", "%71=1&", "&", "=&", "q=a+b&"} {
		for _, n := range []int{10, 100, 1000, 30_000} {
			seeds = append(seeds, []byte(strings.Repeat(piece, n)))
		}
	}
	testkit.Frugal(t, seeds, func(input []byte) {
		raw := string(input)
		QueryValues(raw, "q")
		QueryValue(raw, "cost")
	})
	if n := len(QueryValues(strings.Repeat("q&", 200), "q")); n != maxValues {
		t.Errorf("%d values, want %d", n, maxValues)
	}
}
