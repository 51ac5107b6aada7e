package text

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	long := strings.Repeat("a", 59)
	for _, test := range []struct{ text, want string }{
		{"", `""`},
		{"a \"b\"\n", `"a \"b\"\n"`},
		{"\xff", `"\xff"`},
		{long + "b", `"` + long + `b"`},
		{long + "bc", `"` + long + `b..."`},
		{long + "é and more", `"` + long + `..."`}, // characters are not cut in half
	} {
		if got := Quote(test.text); got != test.want {
			t.Errorf("%q: %s, want %s", test.text, got, test.want)
		}
	}
}

func TestCause(t *testing.T) {
	_, err := os.Open(t.TempDir() + "/none")
	for _, test := range []struct {
		err  error
		want string
	}{
		{err, "no such file or directory"},
		{fmt.Errorf("rules: %w", err), "no such file or directory"},
		{errors.New("too many links"), "too many links"},
	} {
		if got := Cause(test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string][2]bool{"": {true, true}, "jörg <7>": {true, true}, "a\nb\tc\r": {false, true}, "\x1b[31m": {false, false}, "\xff": {false, false}} {
		if got := [2]bool{Printable(text), PrintableLines(text)}; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	long := strings.Repeat("x", 60)
	for text, want := range map[string]string{"a b": "a b", `a"b`: `"a\"b"`, long: long, long + "y": `"` + long + `..."`} {
		if got := Shorten(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
