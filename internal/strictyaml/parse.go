package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth is how deep values may nest.
	maxDepth = 100
	// looseDepth is the same for a document that is read loosely.
	looseDepth = 1000
	// maxAliased is how many values may be read through aliases.
	maxAliased = 500_000
)

// Fault is one thing that is wrong.
type Fault struct {
	Line    int // 1 for the first
	Problem string
	Hint    string
}

// Document is one parsed file and what was found wrong in it.
type Document struct {
	root    *yaml.Node // nil for an empty file
	faults  []Fault
	aliased int
	refused bool // reported once: too deep or too many aliases

	loose bool
	idle  map[string]bool // words that are left out where they mean nothing
	notes []Fault         // what was let pass

	octals []Fault // numbers that were read by base eight
}

// Parse reads data as one YAML document. What is wrong with it stands in its
// faults.
func Parse(data []byte) *Document { return parse(data, new(Document)) }

// ParseLoose reads data as readers of YAML 1.1 do that look at little, for files that were
// written for one. Of several documents only the first is read. Of a word that stands
// twice the last value counts, and objects are joined. yes, on and y are true, no, off and n
// are false, and so is nothing; ~ and null are texts where a text is read. The words that
// are named may stand in any object, and are left out where it does not know them. Values
// may nest 1000 deep. Each of these is a note, see Notes.
func ParseLoose(data []byte, words ...string) *Document {
	doc := &Document{loose: true, idle: map[string]bool{}}
	for _, word := range words {
		doc.idle[word] = true
	}
	return parse(data, doc)
}

func parse(data []byte, doc *Document) *Document {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	err := dec.Decode(&first)
	switch {
	case errors.Is(err, io.EOF):
		return doc
	case err != nil:
		doc.faults = append(doc.faults, syntaxFault(err, data))
		return doc
	}
	if len(first.Content) > 0 {
		doc.root = first.Content[0]
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case doc.loose:
		doc.note(max(second.Line, doc.Root().Line()+1), "a second document in one file is not read", "remove it, or put it in a file of its own")
	case err == nil:
		doc.Fail(second.Line, "a second document in one file", "remove the line `---`, or put the second document in a file of its own")
	default:
		doc.faults = append(doc.faults, syntaxFault(err, data))
	}
	return doc
}

// note notes what was let pass.
func (doc *Document) note(line int, problem, hint string) {
	doc.notes = append(doc.notes, Fault{Line: max(line, 1), Problem: problem, Hint: hint})
}

// Notes returns what was let pass so far in a document that is read loosely, in the order of
// the lines, and once what aliases show several times.
func (doc *Document) Notes() []Fault {
	doc.notes = ordered(doc.notes)
	return doc.notes
}

// Loose says whether the document is read loosely, see ParseLoose.
func (doc *Document) Loose() bool { return doc.loose }

// Faults returns everything that was found so far, in the order of the lines, and
// once what aliases show several times.
func (doc *Document) Faults() []Fault {
	doc.faults = ordered(doc.faults)
	return doc.faults
}

// ordered sorts faults by their lines and drops those that stand there twice.
func ordered(faults []Fault) []Fault {
	slices.SortStableFunc(faults, func(a, b Fault) int { return a.Line - b.Line })
	seen := map[Fault]bool{}
	return slices.DeleteFunc(faults, func(f Fault) bool {
		defer func() { seen[f] = true }()
		return seen[f]
	})
}

// Octals returns the numbers that were read by base eight because they begin with a zero, in
// the order of the lines, and once what aliases show several times. They are no faults.
func (doc *Document) Octals() []Fault {
	doc.octals = ordered(doc.octals)
	return doc.octals
}

// RefuseOctals makes faults of the numbers that Octals returns, for files that have no warnings.
func (doc *Document) RefuseOctals() {
	for _, octal := range doc.Octals() {
		doc.Fail(octal.Line, octal.Problem, octal.Hint)
	}
}

// Fail reports a fault that belongs to a line rather than to a value.
//
// Nothing is reported after the document turned out to be too deep: what is missing
// then was only not read.
func (doc *Document) Fail(line int, problem, hint string) {
	if doc.refused {
		return
	}
	doc.faults = append(doc.faults, Fault{Line: max(line, 1), Problem: problem, Hint: hint})
}

// Root returns the outermost value.
func (doc *Document) Root() Value {
	if doc.root == nil {
		return Value{doc: doc, node: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1}}
	}
	return Value{doc: doc, node: doc.root}.resolved()
}

// Empty says that there is nothing to read: an empty file, or one that is no YAML.
func (doc *Document) Empty() bool { return doc.root == nil }

var (
	yamlLine  = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)
	joinedRow = regexp.MustCompile(`^\s*(?:- )?[A-Za-z_]+:\s+(?:[^\s#"'{\[]+\s+)?(?:- )?[A-Za-z_]+:(?:\s|$)`)
	bareStar  = regexp.MustCompile(`(?:^|[:\-,\[{]\s*)\*(?:[^A-Za-z0-9_\-]|$)`)
	noAnchor  = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
)

// syntaxFault puts the words of the YAML library into ours.
func syntaxFault(err error, data []byte) Fault {
	rows := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	f := Fault{Line: 1, Problem: err.Error(), Hint: "check the indentation, the quotes and the brackets from this line on"}
	if m := yamlLine.FindStringSubmatch(f.Problem); m != nil {
		f.Problem = strings.TrimSpace(m[2])
		if m[1] != "" {
			f.Line, _ = strconv.Atoi(m[1])
		}
	}
	f.Line = min(f.Line, len(rows))
	if m := noAnchor.FindStringSubmatch(f.Problem); m != nil {
		at := slices.IndexFunc(rows, func(row string) bool { return strings.Contains(row, "*"+m[1]) })
		return Fault{max(at, 0) + 1, fmt.Sprintf("*%s refers to nothing", m[1]), fmt.Sprintf("mark what it stands for with &%s, above this line; a value that begins with a star needs quotes", m[1])}
	}
	// The library counts the line of some faults from zero.
	for i := max(f.Line-1, 0); i <= min(f.Line, len(rows)-1); i++ {
		if joinedRow.MatchString(rows[i]) {
			return Fault{i + 1, "several words stand on one line", "the line breaks got lost: give each `word: value` a line of its own, indented as it belongs; a text that holds a colon and a blank needs quotes"}
		}
		if bareStar.MatchString(rows[i]) {
			return Fault{i + 1, "a star outside quotes", "put the text in quotes, such as \"*\" or \"*.png\""}
		}
		if strings.HasPrefix(strings.TrimLeft(rows[i], " "), "\t") {
			return Fault{i + 1, "a tab in the indentation", "indent with spaces; YAML allows no tabs there"}
		}
	}
	f.Problem = "not YAML: " + f.Problem
	return f
}
