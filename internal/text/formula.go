package text

import (
	"iter"
	"strings"
)

// formulaSigns are the signs by which a spreadsheet takes a cell for a formula, also as wide characters.
const formulaSigns = "=+-@＝＋－＠"

// GuardFormulas returns a text for a cell of CSV in which no spreadsheet finds a formula: an apostrophe stands
// before each sign that may begin one. Where the comma is the decimal sign, spreadsheets begin a cell behind
// each semicolon, whatever quotes there are; others do so behind a tab or at the end of a line.
func GuardFormulas(text string) string {
	var safe strings.Builder
	from := 0
	for at := range formulas(text) {
		safe.WriteString(text[from:at] + "'")
		from = at
	}
	if from == 0 && safe.Len() == 0 {
		return text
	}
	return safe.String() + text[from:]
}

// UnguardFormulas returns the text of which GuardFormulas made a cell. It changes no cell without such
// an apostrophe.
func UnguardFormulas(cell string) string {
	var plain strings.Builder
	from := 0
	for at := range formulas(cell) {
		if at > from && cell[at-1] == '\'' {
			plain.WriteString(cell[from : at-1])
			from = at
		}
	}
	if from == 0 {
		return cell
	}
	return plain.String() + cell[from:]
}

// formulas returns where signs stand that may begin a formula: at the beginning of the text and behind what
// some spreadsheets take as a separator, also behind spaces, quotes and apostrophes there. A text that begins
// with a tab or the end of a line counts as one too, because spreadsheets may drop these.
func formulas(text string) iter.Seq[int] {
	return func(yield func(at int) bool) {
		begins, first := true, true
		for i, sign := range text {
			blank := strings.ContainsRune("\t\r\n", sign)
			if begins && (strings.ContainsRune(formulaSigns, sign) || first && blank) && !yield(i) {
				return
			}
			switch {
			case blank, sign == ';':
				begins, first = true, false
			case !strings.ContainsRune(` "'`, sign):
				begins, first = false, false
			}
		}
	}
}
