package book

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"stint/internal/testkit"
)

// Rules are read as a stream. However long an invalid text is, reading it takes a fixed amount of
// memory.
func TestDecodersAreFrugal(t *testing.T) {
	const size = 4 << 20
	most := uint64(16 << 20)
	if testkit.Race { // the race detector allocates too
		most *= 4
	}
	for _, test := range []struct {
		name                string
		format              Format
		before, piece, want string
	}{
		{"lines", CSV, "", "x\n", "and more than 980 more faults"},
		{"lines below a header", CSV, "id,url,time,requests\n", "x\n", "and more than 980 more faults"},
		{"quotes", CSV, "", "\"\n", "and more than 980 more faults"},
		{"commas", CSV, "7,,/a,s,1\n", ",", "body:2: a rule of more than 65536 bytes"},
		{"commas below a header", CSV, "id,url,time,requests\n", ",", "more than 65536 bytes"},
		{"rules without an id", CSV, "id,url,time,requests\n", ",,,\n", "and more than 980 more faults"},
		{"a comment", CSV, "#", ",", "more than 65536 bytes"},
		{"empty lines", CSV, "", "\n", ""},
		{"an open quote", CSV, "id,url,time,requests\n\"", "7,/a,s,1\n", "more than 65536 bytes"},
		{"objects", JSONLines, "", "{}\n", "and more than 980 more faults"},
		{"no objects", JSONLines, "", "x\n", "and more than 980 more faults"},
		{"half an object", JSONLines, "", `{"id":"\u0041"`, "more than 65536 bytes"},
		{"escapes", JSONLines, `{"id":"`, `\u0041`, "more than 65536 bytes"},
		{"empty lines", JSONLines, "", "\n", ""},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		text := io.MultiReader(strings.NewReader(test.before), &repeating{piece: test.piece, left: size})
		var last error
		for _, err := range ReadRules("body", test.format, text) {
			last = err
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: %d bytes took %d bytes of memory, at most %d", test.name, size, took, most)
		}
		if got := fmt.Sprint(last); test.want != "" && !strings.Contains(got, test.want) || test.want == "" && last != nil {
			t.Errorf("%s: %.300s, want %q", test.name, got, test.want)
		}
	}
}

// repeating is a reader that repeats a piece of text.
type repeating struct {
	piece string
	at    int
	left  int
}

func (r *repeating) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.left)
	for i := range p[:n] {
		p[i] = r.piece[r.at]
		r.at = (r.at + 1) % len(r.piece)
	}
	r.left -= n
	return n, nil
}

// Comments and quoted lines do not change where bounded sees the beginning of a record: package csv
// reads the same rules with and without it.
func TestBounded(t *testing.T) {
	long := strings.Repeat("x", 40<<10)
	text := "# it's \"one\n7,\"a\nb\"\n#" + long + "\n8," + long + "\n9,\"" + long + "\"\n"
	all, err := io.ReadAll(&bounded{in: bufio.NewReader(strings.NewReader(text)), fresh: true})
	if string(all) != text || err != nil {
		t.Errorf("%d of %d bytes, %v", len(all), len(text), err)
	}
}
