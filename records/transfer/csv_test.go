package transfer

import (
	"bufio"
	"strings"
	"testing"
)

// Every text is read back as it was.
func FuzzCell(f *testing.F) {
	for _, text := range []string{"", "=1", "'=1", "''-1", "'", "\t", "\r", "\r\n", `"`, `a"b`, ",", "x'=", "@", "+"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line := append(appendCell([]byte("ban,"), text), '\n')
		cells, err := (&rows{in: bufio.NewReader(strings.NewReader(string(line)))}).read()
		if err != nil || len(cells) != 2 || cells[1] != text {
			t.Errorf("%q is written as %q and read as %q, %v", text, line, cells, err)
		}
	})
}

// Lines may end with a carriage return, as spreadsheets write them.
func TestLineEnds(t *testing.T) {
	r := &rows{in: bufio.NewReader(strings.NewReader("a,\"b\"\r\nc,d\re\r\n"))}
	for _, want := range []string{"a|b", "c|d\re"} {
		if cells, err := r.read(); err != nil || strings.Join(cells, "|") != want {
			t.Errorf("%q, %v, want %q", cells, err, want)
		}
	}
}
