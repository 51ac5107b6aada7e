package strictyaml

import "slices"

const (
	// maxDepth is the deepest nesting of values.
	maxDepth = 100
	// looseDepth is the same for a loose document.
	looseDepth = 1000
	// maxAliased is how many values may be read through aliases.
	maxAliased = 500_000
)

// Fault is one problem of a document.
type Fault struct {
	Line    int // counted from 1
	Problem string
	Hint    string
}

// Document is a parsed file with its faults.
type Document struct {
	root    *Node // nil for an empty file
	faults  []Fault
	aliased int
	refused bool // a document that is too deep or has too many aliases is reported once

	loose bool
	idle  map[string]bool // words that are ignored in objects that do not know them
	notes []Fault         // leniencies that were applied

	octals []Fault // numbers that were read as octal
}

// NewDocument returns the document of a root; nil means an empty file.
func NewDocument(root *Node) *Document { return &Document{root: root} }

// NewLooseDocument returns a document that is read with the leniency of simple YAML 1.1 readers. If
// a word appears twice, the last value counts, and objects are joined. yes, on and y are true; no,
// off, n and an empty value are false; ~ and null are texts where a text is expected. The given
// words may appear in any object, and are ignored if it does not know them. Values may nest 1000
// deep. Each use of a leniency is a note, see Notes.
func NewLooseDocument(root *Node, words ...string) *Document {
	doc := &Document{root: root, loose: true, idle: map[string]bool{}}
	for _, word := range words {
		doc.idle[word] = true
	}
	return doc
}

// Note adds a note about a line.
func (doc *Document) Note(line int, problem, hint string) {
	doc.notes = append(doc.notes, Fault{Line: max(line, 1), Problem: problem, Hint: hint})
}

// Notes returns the leniencies that were applied to a loose document so far, in the order of the
// lines. A note that appears several times through aliases is returned once.
func (doc *Document) Notes() []Fault {
	doc.notes = ordered(doc.notes)
	return doc.notes
}

// Loose reports whether the document is loose, see NewLooseDocument.
func (doc *Document) Loose() bool { return doc.loose }

// Faults returns all faults so far, in the order of the lines. A fault that appears several times
// through aliases is returned once.
func (doc *Document) Faults() []Fault {
	doc.faults = ordered(doc.faults)
	return doc.faults
}

// ordered sorts faults by their lines and removes duplicates.
func ordered(faults []Fault) []Fault {
	slices.SortStableFunc(faults, func(a, b Fault) int { return a.Line - b.Line })
	seen := map[Fault]bool{}
	return slices.DeleteFunc(faults, func(f Fault) bool {
		defer func() { seen[f] = true }()
		return seen[f]
	})
}

// Octals returns the numbers that were read as octal because they begin with a zero, in the order
// of the lines and without duplicates. They are no faults.
func (doc *Document) Octals() []Fault {
	doc.octals = ordered(doc.octals)
	return doc.octals
}

// RefuseOctals turns the numbers of Octals into faults, for files without warnings.
func (doc *Document) RefuseOctals() {
	for _, octal := range doc.Octals() {
		doc.Fail(octal.Line, octal.Problem, octal.Hint)
	}
}

// Fail adds a fault of a line.
//
// After the document turned out to be too deep it adds nothing, because missing words may be in the
// part that was not read.
func (doc *Document) Fail(line int, problem, hint string) {
	if doc.refused {
		return
	}
	doc.faults = append(doc.faults, Fault{Line: max(line, 1), Problem: problem, Hint: hint})
}

// Root returns the outermost value.
func (doc *Document) Root() Value {
	if doc.root == nil {
		return Value{doc: doc, node: &Node{Kind: Scalar, Tag: "!!null", Line: 1}}
	}
	return Value{doc: doc, node: doc.root}.resolved()
}

// Empty reports whether the document has no value: the file is empty, or is no YAML.
func (doc *Document) Empty() bool { return doc.root == nil }
