package strictyaml

import "slices"

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
	root    *Node // nil for an empty file
	faults  []Fault
	aliased int
	refused bool // reported once: too deep or too many aliases

	loose bool
	idle  map[string]bool // words that are left out where they mean nothing
	notes []Fault         // what was let pass

	octals []Fault // numbers that were read by base eight
}

// NewDocument returns the document of a root, nil for an empty one.
func NewDocument(root *Node) *Document { return &Document{root: root} }

// NewLooseDocument returns a document that is read as readers of YAML 1.1 do that look at
// little. Of a word that stands twice the last value counts, and objects are joined. yes, on
// and y are true, no, off and n are false, and so is nothing; ~ and null are texts where a
// text is read. The words that are named may stand in any object, and are left out where it
// does not know them. Values may nest 1000 deep. Each of these is a note, see Notes.
func NewLooseDocument(root *Node, words ...string) *Document {
	doc := &Document{root: root, loose: true, idle: map[string]bool{}}
	for _, word := range words {
		doc.idle[word] = true
	}
	return doc
}

// Note notes what was let pass in a line.
func (doc *Document) Note(line int, problem, hint string) {
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
		return Value{doc: doc, node: &Node{Kind: Scalar, Tag: "!!null", Line: 1}}
	}
	return Value{doc: doc, node: doc.root}.resolved()
}

// Empty says that there is nothing to read: an empty file, or one that is no YAML.
func (doc *Document) Empty() bool { return doc.root == nil }
