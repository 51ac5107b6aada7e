package text_test

import (
	"strings"
	"testing"

	"stint/internal/text"
)

func TestFormulas(t *testing.T) {
	for plain, cell := range map[string]string{
		"": "", "a=b": "a=b", "a": "a", "'a": "'a", "'quoted'": "'quoted'", "'": "'", `"`: `"`, "a-b": "a-b", "a - b": "a - b",
		"=1": "'=1", "+1": "'+1", "-1": "'-1", "@a": "'@a", "＝1": "'＝1", "＠a": "'＠a",
		"'=1": "''=1", "''-1": "'''-1", " =1": " '=1", "   -1": "   '-1", `"=1`: `"'=1`, ` "' @a`: ` "' '@a`,
		"\tx": "'\tx", "\rx": "'\rx", "\nx": "'\nx", " \tx": " '\tx", "\r\n": "'\r\n", "\t=1": "'\t'=1", "\n=1": "'\n'=1",
		"a;=1": "a;'=1", "a; =1": "a; '=1", "x;=cmd()": "x;'=cmd()", "a;b=1": "a;b=1", `a;"-1`: `a;"'-1`, "a;'=1": "a;''=1", ";;=1;+2": ";;'=1;'+2",
		"a\t@1": "a\t'@1", "a\r=1": "a\r'=1", "a\n=1": "a\n'=1", "a\r\n-1": "a\r\n'-1", "a;\t=1": "a;\t'=1", "a;b": "a;b", "a,=1": "a,=1",
		"a\xff=1": "a\xff=1", "=\xff;=\xff": "'=\xff;'=\xff",
	} {
		if got := text.GuardFormulas(plain); got != cell {
			t.Errorf("%q: %q, want %q", plain, got, cell)
		}
		if got := text.UnguardFormulas(cell); got != plain {
			t.Errorf("the cell %q: %q, want %q", cell, got, plain)
		}
	}
	for _, cell := range []string{"=1", "a;=1", " -1", "\tx", "it's", "'a", "a';=1"} {
		if got := text.UnguardFormulas(cell); got != cell {
			t.Errorf("a cell that was not guarded, %q: %q", cell, got)
		}
	}
}

// FuzzFormulas checks that a text comes back as it was, and that no spreadsheet finds a formula in its cell, whatever it
// splits cells at.
func FuzzFormulas(f *testing.F) {
	for _, plain := range []string{"", "=1", "'=1", " '\"-1", "a;=1", "\t\r\n", "a\r\n@b", "＝", "\xff=;\xff"} {
		f.Add(plain)
	}
	f.Fuzz(func(t *testing.T, plain string) {
		cell := text.GuardFormulas(plain)
		if got := text.UnguardFormulas(cell); got != plain {
			t.Errorf("%q is the cell %q, and read as %q", plain, cell, got)
		}
		for _, separators := range []string{"", ";", "\t", ";\t\r\n"} {
			for _, one := range strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
				if one = strings.TrimLeft(one, " \""); one != "" && strings.IndexByte("=+-@", one[0]) >= 0 {
					t.Errorf("%q is the cell %q, with the formula %q", plain, cell, one)
				}
			}
		}
	})
}
