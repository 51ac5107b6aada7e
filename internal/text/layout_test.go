package text

import (
	"strings"
	"testing"
)

func TestLayout(t *testing.T) {
	for got, want := range map[string]string{
		Thousands(0): "0", Thousands(999): "999", Thousands(1000): "1,000", Thousands(1234567): "1,234,567", Thousands(-1000): "-1,000",
		Percent(0, 0): "0 %", Percent(1, 100000): "< 0.01 %", Percent(8, 10000): "0.08 %", Percent(312, 10000): "3.1 %",
		Percent(9999, 10000): "> 99.9 %", Percent(5, 5): "100 %",
		Plural(1, "line", "lines"): "1 line", Plural(2000, "line", "lines"): "2,000 lines",
		Visible("a\xffé\x00\u202e\u00a0\n☃", 99): `a\xffé\x00\u202e\xa0\x0a☃`,
		Visible("abcdef", 3):                     "abc…",
		strings.Join(Wrap("aa bb cc", 5), "|"):   "aa bb|cc", strings.Join(Wrap("aaaaaaaa b", 5), "|"): "aaaa…|b",
		Clip("héllo", 5): "héllo", Clip("héllos", 5): "héll…",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTable(t *testing.T) {
	table := Table{Head: []string{"Rule", "Denied", ""}}
	var b strings.Builder
	if table.Write(&b, 20); b.Len() > 0 {
		t.Errorf("a table without rows is written: %q", b.String())
	}
	table.Add("a long name of a rule", int64(1234), "5 %")
	table.Add("b", "-", "")
	table.Write(&b, 20)
	want := "\nRule     Denied\na long…   1,234  5 %\nb             -\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestTableNarrow(t *testing.T) {
	table := Table{Head: []string{"Rule", "Allowed", "Denied", "Clients"}}
	table.Add("a long name", int64(1), int64(2), int64(3))
	for width, want := range map[int]string{
		40: "\nRule         Allowed  Denied  Clients\na long name        1       2        3\n",
		25: "\nRule      Allowed  Denied\na long …        1       2\n",
		20: "\nRule         Allowed\na long name        1\n",
	} {
		var b strings.Builder
		if table.Write(&b, width); b.String() != want {
			t.Errorf("%d: %q, want %q", width, b.String(), want)
		}
	}
}

func TestFolder(t *testing.T) {
	for given, want := range map[string]string{
		"one two\n":                       "one two\n",
		"one two three four\n":            "one two\n  three\n  four\n",
		"one two   three four\n":          "one two\n  three\n  four\n",
		"  one  two three\n":              "  one  two\n    three\n",
		"one:           \n":               "one:\n",
		"a-long-word-without-a-break b\n": "a-long-word-without-a-break\n  b\n",
		"    one two three\n":             "    one two three\n",
		"\n\n":                            "\n\n",
		"é é é é é é\n":                   "é é é é é\n  é\n",
	} {
		var b strings.Builder
		f := Folder{W: &b, Width: 10}
		for i := range len(given) { // in any pieces
			if n, err := f.Write([]byte(given[i : i+1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if b.String() != want {
			t.Errorf("%q: %q, want %q", given, b.String(), want)
		}
	}
}
