package strictyaml

// Node is one value of a document as it was parsed. Package parser makes them.
type Node struct {
	Kind    Kind
	Line    int     // 1 for the first
	Content []*Node // the elements of a list; the words and the values of an object in turn
	Target  *Node   // of an alias

	// Of a scalar:
	Tag    string  // its type, such as !!str or !!int
	Text   string  // as it is written, without quotes
	Plain  bool    // without quotes and without a tag
	Native Decoder // converts it to a Go value
}

// Decoder converts a scalar to the Go value that v points to.
type Decoder interface{ Decode(v any) error }

// Kind is what a node is.
type Kind uint8

// The kinds of nodes.
const (
	Scalar Kind = iota + 1
	Sequence
	Mapping
	Alias
)
